"""Lists `up` among the commands; `manage.py` runs it before the settings, which it makes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from moderation_site.local import up


class Command(BaseCommand):
    help = "Run the whole product on this machine: servers, web, worker and beat."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        up.add_arguments(parser)

    def handle(self, *args: object, **options: Any) -> None:
        own = {name: options[name] for name in up.Options.__dataclass_fields__}
        sys.exit(up.run(up.Options(**own)))
