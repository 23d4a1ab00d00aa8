from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "apps.dashboard"

    def ready(self) -> None:
        from apps.core import realtime
        from apps.dashboard.consumers import chart_points, verdict_rows

        realtime.register_frame_builder(realtime.VERDICTS, verdict_rows)
        realtime.register_frame_builder(realtime.OPERATE, chart_points)
