"""`manage.py bench NAME`: runs one of these modules and prints what it measured.

A benchmark is a module here with `add_arguments(parser)` and `run(options) -> dict`. Its result is
shown as tables; with `--json` the same is the last line of output, as one JSON object. Like `up`,
it runs before Django's settings: a benchmark that needs a stack starts one or is told of one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

import benchmarks

WIDER_THAN_ALL = 10_000  # characters


def names() -> list[str]:
    """The benchmarks there are: modules with a `run`."""
    return [
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if hasattr(_load(module.name), "run") and hasattr(_load(module.name), "add_arguments")
    ]


def _load(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.{name}")


def main(arguments: Sequence[str]) -> int:
    """Run `manage.py bench`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="manage.py bench", description=__doc__)
    chosen = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name in names():
        module = _load(name)
        summary = (module.__doc__ or "").strip().partition("\n")[0]
        sub = chosen.add_parser(name, help=summary, description=module.__doc__)
        sub.add_argument("--json", action="store_true", help="print one JSON object as last line")
        sub.add_argument(
            "--stack",
            type=Path,
            metavar="READY_FILE",
            help="the ready file of a running `up`, used instead of starting one",
        )
        module.add_arguments(sub)
    options = vars(parser.parse_args(arguments))
    result = _load(options.pop("name")).run(options)
    console = Console()
    show(console, result)
    if options["json"]:
        print(json.dumps(result, ensure_ascii=False))
    return 0


def show(console: Console, result: Mapping[str, Any]) -> None:
    """Tables: the single figures in one, each list of rows in one of its own."""
    figures = Table("figure", "value")
    for name, value in result.items():
        if isinstance(value, Mapping):
            for inner, figure in value.items():
                figures.add_row(f"{name}.{inner}", _text(figure))
        elif not _is_rows(value):
            figures.add_row(name, _text(value))
    if figures.row_count:
        console.print(figures)
    for name, value in result.items():
        if _is_rows(value):
            table = _rows(name, value)
            unbounded = console.options.update(max_width=WIDER_THAN_ALL)
            fits = console.measure(table, options=unbounded).maximum <= console.width
            console.print(table if fits else _turned(name, value))


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _rows(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = _columns(rows)
    table = Table(*columns, title=name)
    for row in rows:
        table.add_row(*(_text(row.get(column, "")) for column in columns))
    return table


def _turned(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line a figure, for rows with more figures than there is room for side by side."""
    figure = Column("figure", no_wrap=True)
    trials = (str(number) for number in range(1, len(rows) + 1))
    table = Table(figure, *trials, title=name, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in _columns(rows):
        table.add_row(column, *(_text(row.get(column, "")) for row in rows))
    return table


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def _text(value: object) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
