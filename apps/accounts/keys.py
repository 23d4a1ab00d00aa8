"""API keys: made, checked, revoked. Form `cw_<prefix>_<secret>`, only a digest is stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import ApiKey

_SCHEME = "cw"
_USE_WRITTEN_EVERY_S = 60.0


def generate_key() -> tuple[str, str, bytes]:
    """A new `(key, prefix, digest)`. 128 random bits make a slow hash needless."""
    prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(24).replace("_", "-")
    key = f"{_SCHEME}_{prefix}_{secret}"
    return key, prefix, digest(key)


def digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def find_key(key: str) -> ApiKey | None:
    """The usable ApiKey that `key` belongs to, or None. Compares in constant time."""
    parts = key.split("_")
    if len(parts) != 3 or parts[0] != _SCHEME or "\x00" in key:
        return None
    found = ApiKey.objects.filter(prefix=parts[1]).first()
    if found is None or not hmac.compare_digest(bytes(found.secret_digest), digest(key)):
        return None
    return found if is_usable(found) else None


def is_usable(key: ApiKey) -> bool:
    now = timezone.now()
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


@dataclass(frozen=True, slots=True)
class _Remembered:
    key: ApiKey | None
    stale_at_s: float


class KeyCache:
    """What `find_key` said, for two seconds: so long a revoked key may still work.

    Holds digests, never keys. Answers of no are remembered too, so a caller that hammers with a
    wrong key costs one lookup in two seconds. Thread-safe: each step is one dict operation.
    """

    def __init__(
        self,
        *,
        fresh_s: float = 2.0,
        capacity: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fresh_s = fresh_s
        self._capacity = capacity
        self._clock = clock
        self._found: dict[bytes, _Remembered] = {}
        self._use_written_at_s: dict[int, float] = {}

    def remembers(self, key: str) -> bool:
        """Whether `find` will answer without the database."""
        return self._fresh(digest(key)) is not None

    def find(self, key: str) -> ApiKey | None:
        """The usable ApiKey that `key` belongs to, or None."""
        key_digest = digest(key)
        remembered = self._fresh(key_digest)
        if remembered is None:
            # Taken before the query: what it reads is at least as new as this.
            stale_at_s = self._clock() + self._fresh_s
            remembered = _Remembered(find_key(key), stale_at_s)
            if len(self._found) >= self._capacity:
                self._found.clear()
            self._found[key_digest] = remembered
        found = remembered.key
        return found if found is not None and is_usable(found) else None

    def _fresh(self, key_digest: bytes) -> _Remembered | None:
        remembered = self._found.get(key_digest)
        if remembered is None or self._clock() >= remembered.stale_at_s:
            return None
        return remembered

    def use_is_due(self, key: ApiKey) -> bool:
        """Whether this use has to be written down: true at most once a minute and key."""
        now_s = self._clock()
        written_at_s = self._use_written_at_s.get(key.pk)
        if written_at_s is not None and now_s - written_at_s < _USE_WRITTEN_EVERY_S:
            return False
        self._use_written_at_s[key.pk] = now_s
        return True


def write_use(key_id: int) -> None:
    """Note that a key was used, unless another process just did."""
    now = timezone.now()
    written_before = now - timedelta(seconds=_USE_WRITTEN_EVERY_S)
    ApiKey.objects.filter(
        Q(last_used_at=None) | Q(last_used_at__lt=written_before), pk=key_id
    ).update(last_used_at=now)
