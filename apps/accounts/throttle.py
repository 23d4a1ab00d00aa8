"""Slows down guessing of passwords, by name and address.

Failures are rows in PostgreSQL: sign-in needs it anyway, so there is no second store whose
absence would either lock everybody out or let everybody guess. Names are kept as digests, since
people type passwords into the wrong field.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.models import SignInFailure

WINDOW = timedelta(minutes=15)
MOST_BY_NAME_AND_ADDRESS = 5
MOST_BY_ADDRESS = 50


def address_of(request: HttpRequest) -> str:
    """The peer's address; uvicorn has put a trusted proxy's client here."""
    return str(request.META.get("REMOTE_ADDR") or "")[:45]


def seconds_to_wait(*, username: str, address: str) -> int:
    """How long further tries are refused; 0 when one is welcome."""
    now = timezone.now()
    failures = SignInFailure.objects.filter(address=address, at__gt=now - WINDOW).order_by("-at")
    by_name = failures.filter(name_digest=_digest(username))
    # The failure that has to leave the window before there is room for another try.
    limiting = [
        rows[most - 1]
        for rows, most in (
            (list(by_name[:MOST_BY_NAME_AND_ADDRESS]), MOST_BY_NAME_AND_ADDRESS),
            (list(failures[:MOST_BY_ADDRESS]), MOST_BY_ADDRESS),
        )
        if len(rows) == most
    ]
    return max((int((row.at + WINDOW - now).total_seconds()) + 1 for row in limiting), default=0)


def record_failure(*, username: str, address: str) -> None:
    """Count one failed try, and drop what left the window."""
    SignInFailure.objects.filter(at__lte=timezone.now() - WINDOW).delete()
    SignInFailure.objects.create(name_digest=_digest(username), address=address)


def forget_failures(*, username: str, address: str) -> None:
    """After a success the name's own failures no longer count."""
    SignInFailure.objects.filter(name_digest=_digest(username), address=address).delete()


def _digest(username: str) -> bytes:
    return hashlib.sha256(username.encode("utf-8", "surrogatepass")).digest()
