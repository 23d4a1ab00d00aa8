from django.apps import AppConfig


class ScoringConfig(AppConfig):
    name = "apps.scoring"

    def ready(self) -> None:
        from apps.core import realtime
        from apps.scoring.feed import build_frame

        realtime.register_frame_builder(realtime.VERDICTS, build_frame)
