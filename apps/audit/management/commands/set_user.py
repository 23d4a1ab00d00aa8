"""`manage.py set_user NAME --role admin`: the first person of an installation."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import Role
from apps.audit.people import set_user
from apps.audit.services import Actor


class Command(BaseCommand):
    help = "Make a user, or set role and password of the one there is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--role", choices=Role.values, default=Role.MODERATOR.value)
        parser.add_argument(
            "--password-stdin", action="store_true", help="read the password, do not ask for it"
        )

    def handle(self, *args: object, **options: Any) -> None:
        if options["password_stdin"]:
            password = sys.stdin.readline().rstrip("\n")
        else:
            password = getpass.getpass("Password: ")
        try:
            validate_password(password)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        user = set_user(
            username=options["username"],
            role=Role(options["role"]),
            password=password,
            by=Actor.system("manage.py set_user"),
        )
        self.stdout.write(f"{user.get_username()} is {user.get_role_display()}.")
