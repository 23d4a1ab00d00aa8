"""The Celery app. Tasks are hints: each may be lost, doubled or late without harm."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "moderation_site.settings")

app = Celery("chatwarden")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
