from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "apps.dashboard"

    def ready(self) -> None:
        from django.conf import settings

        from apps.core import realtime
        from apps.dashboard.consumers import (
            chart_points,
            figures_in,
            figures_topic,
            verdict_rows,
        )

        realtime.register_frame_builder(realtime.VERDICTS, verdict_rows)
        realtime.register_frame_builder(realtime.OPERATE, chart_points)
        for language, _ in settings.LANGUAGES:
            realtime.register_frame_builder(figures_topic(language), figures_in(language))
