from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Admins' pages, which look across rooms: policies beside scores, API keys, the audit log."""

    name = "apps.console"
