from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "apps.alerts"

    def ready(self) -> None:
        from apps.alerts.timeline import alert_events
        from apps.dashboard.events import add_source

        add_source(alert_events)
