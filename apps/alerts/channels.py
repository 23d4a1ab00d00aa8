"""Who is told outside the console, and how. Both addresses come from the environment alone:
nobody can make the product call an address of their choice by changing a rule."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import urllib.request
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage

from apps.alerts.figures import DEFAULTS, Figure
from apps.alerts.models import Channel, Notice

TIMEOUT_S = 5.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Where the configured address points is what was agreed on; elsewhere is not."""

    def redirect_request(self, *_: Any) -> None:
        return None


# No proxy of the environment, no file:// or ftp://: only what is listed.
_opener = urllib.request.OpenerDirector()
for _handler in (
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPErrorProcessor,
    _NoRedirects,
):
    _opener.add_handler(_handler())


def open_channels() -> list[Channel]:
    """Those that are configured."""
    channels = []
    if settings.ALERT_WEBHOOK_URL:
        channels.append(Channel.WEBHOOK)
    if settings.ALERT_EMAIL_TO:
        channels.append(Channel.EMAIL)
    return channels


def send(notice: Notice, *, now: datetime) -> None:
    """Tell it.

    Raises:
        OSError: it did not arrive; urllib's and smtplib's errors are of this kind.
    """
    if notice.channel == Channel.WEBHOOK:
        _post(notice, now)
    else:
        _mail(notice)


def payload(notice: Notice) -> dict[str, Any]:
    """What a webhook gets: figures and times, never a message."""
    alert, rule = notice.alert, notice.alert.rule
    return {
        "type": "alert.resolved" if notice.is_resolved else "alert.fired",
        "timestamp": _iso(alert.resolved_at if notice.is_resolved else alert.fired_at),
        "data": {
            "alert_id": alert.pk,
            "figure": rule.figure,
            "value": alert.value,
            "limit": alert.limit,
            "direction": "below" if rule.is_below else "above",
            "for_s": rule.for_s,
            "fired_at": _iso(alert.fired_at),
            "resolved_at": _iso(alert.resolved_at),
        },
    }


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """As Standard Webhooks signs: HMAC-SHA256 over id, time and body."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _post(notice: Notice, now: datetime) -> None:
    body = json.dumps(payload(notice), separators=(",", ":")).encode()
    message_id, timestamp = str(notice.pk), int(now.timestamp())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Chatwarden",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
    }
    if settings.ALERT_WEBHOOK_SECRET:
        secret = settings.ALERT_WEBHOOK_SECRET
        headers["webhook-signature"] = signature(secret, message_id, timestamp, body)
    # Settings refuse any other scheme at the start.
    request = urllib.request.Request(  # noqa: S310
        settings.ALERT_WEBHOOK_URL, data=body, headers=headers, method="POST"
    )
    with _opener.open(request, timeout=TIMEOUT_S):
        return


def _mail(notice: Notice) -> None:
    alert, rule = notice.alert, notice.alert.rule
    figure = Figure(rule.figure)
    word = "Resolved" if notice.is_resolved else "Alert"
    side = "below" if rule.is_below else "above"
    lines = [
        f"{figure.label}: {side} {alert.limit:g} for {rule.for_s} s.",
        str(DEFAULTS[figure].meaning),
        f"It was {'unknown' if alert.value is None else f'{alert.value:g}'} when it fired.",
        f"Fired at {_iso(alert.fired_at)}.",
    ]
    if alert.resolved_at is not None:
        lines.append(f"Resolved at {_iso(alert.resolved_at)}.")
    EmailMessage(
        subject=f"[Chatwarden] {word}: {figure.label}",
        body="\n".join(lines),
        to=settings.ALERT_EMAIL_TO,
        headers={"Message-ID": f"<{notice.pk}@chatwarden>"},
    ).send()


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")
