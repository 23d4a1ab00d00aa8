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


def begin_try(*, username: str, address: str) -> SignInFailure:
    """Count a try as failed before the password is looked at, and drop what left the window.

    Counted only afterwards, any number of tries at once would each see none before it.
    """
    SignInFailure.objects.filter(at__lte=timezone.now() - WINDOW).delete()
    return SignInFailure.objects.create(name_digest=_digest(username), address=address)


def seconds_to_wait(begun: SignInFailure) -> int:
    """How long this try is refused; 0 when it is welcome. One that is refused does not count."""
    now = timezone.now()
    others = SignInFailure.objects.exclude(pk=begun.pk).filter(
        address=begun.address, at__gt=now - WINDOW
    )
    by_name = others.filter(name_digest=begun.name_digest)
    # The failure that has to leave the window before there is room for another try.
    limiting = [
        rows[most - 1]
        for rows, most in (
            (list(by_name.order_by("-at")[:MOST_BY_NAME_AND_ADDRESS]), MOST_BY_NAME_AND_ADDRESS),
            (list(others.order_by("-at")[:MOST_BY_ADDRESS]), MOST_BY_ADDRESS),
        )
        if len(rows) == most
    ]
    if limiting:
        begun.delete()
    return max((int((row.at + WINDOW - now).total_seconds()) + 1 for row in limiting), default=0)


def forget_failures(succeeded: SignInFailure) -> None:
    """After a success the name's own failures no longer count."""
    SignInFailure.objects.filter(
        name_digest=succeeded.name_digest, address=succeeded.address
    ).delete()


def _digest(username: str) -> bytes:
    return hashlib.sha256(username.encode("utf-8", "surrogatepass")).digest()
