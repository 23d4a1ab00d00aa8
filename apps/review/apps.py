from django.apps import AppConfig


class ReviewConfig(AppConfig):
    name = "apps.review"

    def ready(self) -> None:
        from apps.review.services.intake import take_in
        from apps.scoring.sinks import register_verdict_sink

        register_verdict_sink(take_in)
