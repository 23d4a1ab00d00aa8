from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "apps.webhooks"

    def ready(self) -> None:
        from apps.scoring.sinks import register_verdict_sink
        from apps.webhooks.services import enqueue_verdicts

        register_verdict_sink(enqueue_verdicts)
