"""Lists `bench` among the commands; `manage.py` runs it before the settings, like `up`."""

from __future__ import annotations

import sys
from argparse import REMAINDER, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Measure this product: bench NAME [--json] [--stack READY_FILE]."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("arguments", nargs=REMAINDER)

    def handle(self, *args: object, **options: Any) -> None:
        from benchmarks.command import main

        sys.exit(main(options["arguments"]))
