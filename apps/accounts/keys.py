"""API keys: made, checked, revoked. Form `cw_<prefix>_<secret>`, only a digest is stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from django.utils import timezone

from apps.accounts.models import ApiKey

_SCHEME = "cw"


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
