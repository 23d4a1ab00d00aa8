from typing import Any

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_out


class ReviewConfig(AppConfig):
    name = "apps.review"

    def ready(self) -> None:
        from apps.review.services.intake import take_in
        from apps.scoring.sinks import register_verdict_sink

        register_verdict_sink(take_in)
        user_logged_out.connect(_release, dispatch_uid="review.release")


def _release(sender: Any, user: Any, **_: Any) -> None:
    """Whoever signs out gives back what they have open."""
    from apps.review.services.serving import release_all

    if user is not None:
        release_all(user)
