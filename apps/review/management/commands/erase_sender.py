"""`manage.py erase_sender ID`: everything of a person, now."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import User
from apps.audit.services import Actor
from apps.review.services.erasure import erase_batch, request_erasure


class Command(BaseCommand):
    help = (
        "Erase everything of a sender, in all groups, and wait until it is done. Interrupted, a "
        "worker goes on with it; asking again is safe."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("sender", help="the chat backend's id of the person")
        parser.add_argument(
            "--by", metavar="USERNAME", help="the admin who asks, for the audit record"
        )

    def handle(self, *args: object, **options: Any) -> None:
        if not options["sender"]:
            raise CommandError("Name the sender by the chat backend's id.")
        try:
            erasure = request_erasure(options["sender"], by=_by(options["by"]))
        except PermissionDenied as error:
            raise CommandError(f"{options['by']} may not erase: only admins may.") from error
        while not erase_batch(erasure.pk, wait=True):
            continue
        erasure.refresh_from_db()
        self.stdout.write(f"Erased. Messages: {erasure.messages}.")


def _by(username: str | None) -> User | Actor:
    if username is None:
        return Actor.system("manage.py erase_sender")
    try:
        return User.objects.get(username=username)
    except User.DoesNotExist as error:
        raise CommandError(f"There is no user {username}.") from error
