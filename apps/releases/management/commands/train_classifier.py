"""`manage.py train_classifier`: train, export and measure the default classifier."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.releases.training.fitting import FitOptions
from apps.releases.training.paths import MODEL_REPOSITORY
from apps.releases.training.train import train


class Command(BaseCommand):
    help = "Train the default classifier, write it into the model repository, and measure it."
    # Needs no database, so it runs before anything else of the stack is up.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--data", type=Path, required=True, help="JSON lines: text, label, lang, split"
        )
        parser.add_argument("--functional", type=Path, help="JSON lines that are only measured")
        parser.add_argument(
            "--out", type=Path, default=MODEL_REPOSITORY, help="model repository to write into"
        )
        parser.add_argument("--seed", type=int, default=7)
        parser.add_argument("--fits", type=int, default=FitOptions().fits, help="averaged")
        parser.add_argument("--epochs", type=int, default=FitOptions().epochs)

    def handle(self, *args: Any, **options: Any) -> None:
        functional = options["functional"] or beside(options["data"])
        try:
            evaluation = train(
                options["data"],
                options["out"],
                seed=options["seed"],
                report=self.stdout.write,
                functional=functional,
                options=FitOptions(fits=options["fits"], epochs=options["epochs"]),
            )
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from error
        everything = evaluation.test["all"]
        self.stdout.write(
            f"test: flagged F1 {everything.flagged_f1:.3f}, AUC {everything.auc or 0:.3f}, "
            f"{evaluation.first_rows_right} of the first 1,000 labels right"
        )


def beside(data: Path) -> Path | None:
    """The functional tests that lie beside the data, if they do."""
    path = data.with_name("functional_tests.jsonl")
    return path if path.exists() else None
