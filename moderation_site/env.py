"""Settings from the environment: typed, and refused with one clear sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


def read(name: str, default: str | None = None) -> str:
    """The value of `name`, or the content of the file that `<name>_FILE` names."""
    value = os.environ.get(name)
    if value is not None:
        return value
    file = os.environ.get(f"{name}_FILE")
    if file is not None:
        return _read_file(f"{name}_FILE", file)
    if default is None:
        raise ImproperlyConfigured(f"{name} is not set: set it, or {name}_FILE to a file with it.")
    return default


def _read_file(name: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name} names {file}, which cannot be read: {error.strerror}."
        ) from error


def _parsed(name: str, default: str, what: str, parse: Callable[[str], T]) -> T:
    value = read(name, default)
    try:
        return parse(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be {what}.") from error


def integer(name: str, default: int, *, least: int = 0) -> int:
    def parse(value: str) -> int:
        number = int(value)
        if number < least:
            raise ValueError(value)
        return number

    return _parsed(name, str(default), f"a whole number of at least {least}", parse)


def boolean(name: str, *, default: bool) -> bool:
    def parse(value: str) -> bool:
        word = value.strip().lower()
        if word not in _TRUE | _FALSE:
            raise ValueError(value)
        return word in _TRUE

    return _parsed(name, str(default), "true or false", parse)


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list, blanks dropped."""
    return [word.strip() for word in read(name, default).split(",") if word.strip()]


def database(name: str) -> dict[str, object]:
    """A Django DATABASES entry from `postgresql://user:password@host:port/name?host=/socket/dir`."""
    url = urlsplit(read(name, "postgresql:///chatwarden"))
    if url.scheme not in {"postgresql", "postgres"}:
        raise ImproperlyConfigured(f"{name} must be a postgresql:// address.")
    options = dict(parse_qsl(url.query))
    host = options.pop("host", url.hostname or "")
    try:
        port = str(options.pop("port", url.port or ""))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} has a port that is not a number.") from error
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(url.path.lstrip("/")) or "chatwarden",
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": unquote(host),
        "PORT": port,
        "OPTIONS": options,
    }
