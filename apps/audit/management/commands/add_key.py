"""`manage.py add_key NAME`: a key for a chat backend, shown once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from apps.audit.people import add_key
from apps.audit.services import Actor


class Command(BaseCommand):
    help = "Make an API key for a chat backend and print it, once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the backend, as people will see it")
        parser.add_argument(
            "--may-erase", action="store_true", help="let it erase messages and senders, too"
        )

    def handle(self, *args: object, **options: Any) -> None:
        _, secret = add_key(
            name=options["name"],
            by=Actor.system("manage.py add_key"),
            may_erase=options["may_erase"],
        )
        self.stdout.write(secret)
