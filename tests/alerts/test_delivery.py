"""Telling alerts: a real receiver, signed, at least once, never elsewhere."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone
from pytest_django.fixtures import Settings

from apps.alerts.delivery import MOST_ATTEMPTS, deliver_due
from apps.alerts.figures import Figure
from apps.alerts.models import Alert, AlertRule, Channel, Notice
from apps.alerts.services import ensure_rules

pytestmark = pytest.mark.django_db


class Receiver:
    """Answers with `status`, keeps what came."""

    def __init__(self) -> None:
        self.status = 204
        self.location = ""
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.got.append((self.path, headers, body))
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST  # noqa: N815  (what a followed redirect would ask)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    made = Receiver()
    settings.ALERT_WEBHOOK_URL = made.url
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def notice(channel: Channel = Channel.WEBHOOK) -> Notice:
    ensure_rules()
    rule = AlertRule.objects.get(figure=Figure.OLDEST_PENDING)
    alert = Alert.objects.create(rule=rule, fired_at=timezone.now(), value=75.5, limit=60)
    return Notice.objects.create(
        alert=alert, channel=channel, is_resolved=False, due_at=timezone.now()
    )


def make_due(each: Notice) -> None:
    Notice.objects.filter(pk=each.pk, due_at__isnull=False).update(
        due_at=timezone.now() - timedelta(seconds=1)
    )


def test_webhook_gets_what_fired_signed(receiver: Receiver, settings: Settings) -> None:
    settings.ALERT_WEBHOOK_SECRET = "a shared secret"
    sent = notice()
    assert deliver_due() == 1
    ((path, headers, body),) = receiver.got
    assert path == "/hook"
    data = json.loads(body)
    assert data["type"] == "alert.fired"
    assert data["data"]["figure"] == "oldest_pending_s"
    assert (data["data"]["value"], data["data"]["limit"]) == (75.5, 60)
    assert headers["webhook-id"] == str(sent.pk)
    signed = f"{sent.pk}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(b"a shared secret", signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    sent.refresh_from_db()
    assert sent.sent_at is not None


def test_without_a_secret_nothing_is_signed(receiver: Receiver) -> None:
    notice()
    deliver_due()
    assert "webhook-signature" not in receiver.got[0][1]


def test_what_arrived_is_not_sent_again(receiver: Receiver) -> None:
    notice()
    assert (deliver_due(), deliver_due()) == (1, 0)
    assert len(receiver.got) == 1


def test_refused_notice_is_sent_later_with_the_same_id(receiver: Receiver) -> None:
    receiver.status = 503
    sent = notice()
    assert deliver_due() == 0
    sent.refresh_from_db()
    assert (sent.attempts, sent.failure) == (1, "HTTPError")
    assert sent.due_at is not None
    assert sent.due_at > timezone.now()
    receiver.status = 200
    make_due(sent)
    assert deliver_due() == 1
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 1


def test_receiver_that_never_takes_it_is_given_up_visibly(receiver: Receiver) -> None:
    receiver.status = 500
    sent = notice()
    for _ in range(MOST_ATTEMPTS + 3):
        make_due(sent)
        deliver_due()
    sent.refresh_from_db()
    assert len(receiver.got) == MOST_ATTEMPTS
    assert (sent.due_at, sent.sent_at, sent.failure) == (None, None, "HTTPError")


def test_receiver_that_is_away_is_a_failure_not_an_error(settings: Settings) -> None:
    settings.ALERT_WEBHOOK_URL = "http://127.0.0.1:9/"
    sent = notice()
    assert deliver_due() == 0
    sent.refresh_from_db()
    assert sent.failure == "URLError"


def test_redirects_are_not_followed(receiver: Receiver) -> None:
    receiver.status, receiver.location = 302, receiver.url + "/elsewhere"
    notice()
    assert deliver_due() == 0
    assert [path for path, _, _ in receiver.got] == ["/hook"]


def test_mail_says_what_fired(settings: Settings) -> None:
    settings.ALERT_EMAIL_TO = ["ops@chat.example"]
    notice(Channel.EMAIL)
    assert deliver_due() == 1
    (sent,) = mail.outbox
    assert sent.to == ["ops@chat.example"]
    assert sent.subject == "[Chatwarden] Alert: Oldest pending message, s"
    assert "It was 75.5 when it fired." in sent.body
