"""What `manage.py up` shows: each step as it happens, then the way in."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.panel import Panel
from rich.status import Status
from rich.table import Table
from rich.text import Text

from moderation_site.local.bootstrap_client import Accounts
from moderation_site.local.supervisor import Event, EventKind

LABELS = {
    "postgres": "PostgreSQL",
    "redis": "Redis",
    "web": "web",
    "worker": "Celery worker",
    "beat": "Celery beat",
    "demo": "demo traffic",
}


def label(name: str) -> str:
    if name.startswith("worker-"):
        return name.replace("worker-", f"{LABELS['worker']} ")
    return LABELS.get(name, name.replace("triton-", "Triton "))


class Display:
    """Steps with their times; a spinner names what is under way when there is a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._status = Status("Starting", console=self._console)
        self._under_way: dict[str, float] = {}
        self._step: tuple[str, float] | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._status.stop()

    def step(self, text: str) -> None:
        """A step begins; the one before it is done."""
        self._finish_step()
        self._step = (text, time.monotonic())
        self._status.update(text)

    def event(self, event: Event) -> None:
        """A child changed its state."""
        name = label(event.name)
        match event.kind:
            case EventKind.STARTING:
                self._finish_step()
                self._under_way[name] = time.monotonic()
                self._show_under_way()
            case EventKind.READY:
                self._done(name, self._under_way.pop(name))
                self._show_under_way()
            case EventKind.DIED | EventKind.UNLOGGED:
                self._line("✗", "red", f"{name}: {event.detail}")
            case EventKind.RESTARTED:
                self._line("✓", "green", f"{name} answers again")
            case EventKind.STOPPED:
                self._line("·", "dim", f"{name} stopped")

    def note(self, text: str) -> None:
        self._line("·", "dim", text)

    def fail(self, sentence: str) -> None:
        """The one sentence after which nothing follows."""
        self._console.print(Text(sentence, style="bold red"), soft_wrap=True)

    def ready(self, url: str, accounts: Accounts, data_dir: Path, took_s: float) -> None:
        """The address and the credentials."""
        self._status.stop()
        rows = Table.grid(padding=(0, 2))
        rows.add_row("Open", Text(url, style="bold"))
        for login in (accounts.admin, accounts.moderator):
            rows.add_row(login.username.capitalize(), f"{login.username}  {login.password}")
        rows.add_row("API key", accounts.api_key)
        rows.add_row("Data, logs", str(data_dir))
        rows.add_row("", Text("Ctrl-C stops everything; what is stored stays.", style="dim"))
        title = f"Chatwarden is ready ({took_s:.1f} s)"
        if self._console.is_terminal:
            self._console.print(Panel(rows, title=title, border_style="green", expand=False))
        else:
            self._console.print(title)
            self._console.print(rows, soft_wrap=True)

    def _finish_step(self) -> None:
        if self._step is not None:
            text, began_s = self._step
            self._step = None
            self._done(text, began_s)

    def _done(self, text: str, began_s: float) -> None:
        self._line("✓", "green", text, f"{time.monotonic() - began_s:.1f} s")

    def _show_under_way(self) -> None:
        if self._under_way:
            self._status.update(f"Starting {', '.join(self._under_way)}")

    def _line(self, mark: str, style: str, text: str, aside: str = "") -> None:
        line = Text.assemble((mark, style), " ", text, "  ", (aside, "dim"))
        self._console.print(line, soft_wrap=True)
