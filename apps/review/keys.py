"""The commands that the review page has a key for, and which keys can be theirs. Pure.

A new command needs an entry here and, in the page, an element with `data-command="its name"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.policies.models import Label
from apps.review.models import Reason


@dataclass(frozen=True, slots=True)
class Command:
    """Something a key does. `default` is its key until somebody changes it."""

    name: str
    default: str
    words: str | Promise


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands that belong together, as the list of keys shows them."""

    words: str | Promise
    commands: tuple[Command, ...]


GROUPS: tuple[CommandGroup, ...] = (
    CommandGroup(
        _("Decide"),
        (
            Command("allow", "a", _("Allow")),
            Command("remove", "r", _("Remove")),
            Command("strike", "t", _("Remove and strike the sender")),
            Command("hold", "h", _("Keep held")),
            Command("escalate", "e", _("Hand to a lead")),
            Command("skip", "s", _("Skip")),
            Command("undo", "u", _("Take the last decision back")),
            Command("note", "n", _("Write a note")),
        ),
    ),
    CommandGroup(
        _("What it is"),
        tuple(
            Command(f"label_{label.value}", str(number), label.label)
            for number, label in enumerate(Label, 1)
        ),
    ),
    CommandGroup(
        _("Why"),
        tuple(
            Command(f"reason_{reason.value}", key, reason.label)
            for key, reason in zip("567890", Reason, strict=True)
        ),
    ),
    CommandGroup(
        _("Look around"),
        (
            Command("down", "j", _("Down in the queue")),
            Command("up", "k", _("Up in the queue")),
            Command("search", "/", _("Search in the queue")),
            Command("more", "]", _("More of the conversation")),
            Command("reveal", "v", _("Show what is blurred, and blur it again")),
        ),
    ),
)
COMMANDS: dict[str, Command] = {c.name: c for group in GROUPS for c in group.commands}
DEFAULTS: dict[str, str] = {name: command.default for name, command in COMMANDS.items()}
# "?" lists the keys, and browsers search the page with "'" or go back with backspace.
RESERVED = frozenset("?'")


class KeyRefusedError(Exception):
    """These keys can't be used; `problems` names a command and what is wrong with its key."""

    def __init__(self, problems: Mapping[str, str | Promise]) -> None:
        super().__init__(", ".join(problems))
        self.problems = problems


def checked(wanted: Mapping[str, str]) -> dict[str, str]:
    """A key for every command, from what somebody wants; left out or empty means the default.

    Raises:
        KeyRefusedError: A key is reserved, no single visible character, or used twice.
    """
    keys = {name: wanted.get(name, "").strip().lower() or key for name, key in DEFAULTS.items()}
    problems: dict[str, str | Promise] = {}
    taken: dict[str, str] = {}
    for name, key in keys.items():
        if len(key) != 1 or not key.isprintable() or key.isspace():
            problems[name] = _("One visible character, please.")
        elif key in RESERVED:
            problems[name] = _("This key is spoken for.")
        elif key in taken:
            problems[name] = _("The same key as: %(other)s") % {"other": COMMANDS[taken[key]].words}
        taken.setdefault(key, name)
    if problems:
        raise KeyRefusedError(problems)
    return keys


def changed(keys: Mapping[str, str]) -> dict[str, str]:
    """Only what differs from the defaults, so that a better default reaches everybody else."""
    return {name: key for name, key in keys.items() if key != DEFAULTS[name]}


def merged(own: Mapping[str, str]) -> dict[str, str]:
    """The key of every command. Where a stored key clashes with a newer command, defaults win."""
    try:
        return checked({name: key for name, key in own.items() if name in COMMANDS})
    except KeyRefusedError:
        return dict(DEFAULTS)
