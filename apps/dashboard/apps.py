from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "apps.dashboard"

    def ready(self) -> None:
        from django.conf import settings

        from apps.core import realtime
        from apps.dashboard.consumers import (
            VERDICT_VIEWS,
            chart_points,
            figures_in,
            figures_topic,
            read_verdicts,
        )

        realtime.register_frame_builder(realtime.VERDICTS, read_verdicts, views=VERDICT_VIEWS)
        realtime.register_frame_builder(realtime.OPERATE, chart_points)
        for language, _ in settings.LANGUAGES:
            realtime.register_frame_builder(figures_topic(language), figures_in(language))
