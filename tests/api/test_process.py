"""The web process as it is run: real sockets, one port, and an end that loses nothing."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import pytest
from django.conf import settings

from apps.accounts.services import create_api_key
from apps.chat.models import Message
from moderation_site.local.ports import free_ports

PROJECT = Path(__file__).resolve().parents[2]


class Web:
    """A uvicorn process over the test's database."""

    def __init__(self, environment: dict[str, str], secret: str) -> None:
        [self.port] = free_ports(1)
        self._secret = secret
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "uvicorn", "moderation_site.asgi:application"),
                *("--port", str(self.port), "--no-access-log", "--log-level", "warning"),
            ],
            cwd=PROJECT,
            env=environment,
        )
        self._wait_until_alive()

    def _wait_until_alive(self) -> None:
        while self.process.poll() is None:
            with suppress(OSError), closing(self.connect()) as connection:
                if self.call(connection, "GET", "/healthz")[0] == 200:
                    return
        raise RuntimeError("The web process ended before it answered.")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def call(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: str = ""
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._secret}", "Content-Type": "application/json"}
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.fixture
def web(process_environment: dict[str, str]) -> Iterator[Web]:
    environment = {**process_environment, "STATIC_ROOT": str(settings.STATIC_ROOT)}
    web = Web(environment, create_api_key(name="backend")[1])
    yield web
    web.process.kill()
    web.process.wait()


def test_api_and_pages_share_the_port(web: Web) -> None:
    with closing(web.connect()) as connection:
        assert web.call(connection, "GET", "/readyz") == (200, b'{"status":"ready"}')
        status, page = web.call(connection, "GET", "/api/v1/docs")
        assert status == 200
        assert b"<!doctype html>" in page
        assert web.call(connection, "GET", "/api/v1/nothing")[0] == 404
        assert web.call(connection, "GET", "/sign-in/")[0] == 200


def test_a_body_too_large_is_refused_on_the_wire(web: Web) -> None:
    with closing(web.connect()) as connection:
        connection.putrequest("POST", "/api/v1/messages")
        connection.putheader("Authorization", f"Bearer {web._secret}")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        for _ in range(65):
            connection.send(chunk)
        assert connection.getresponse().status == 413


def test_what_was_answered_before_a_stop_is_stored_once(web: Web) -> None:
    """Backends keep sending while the process is told to end; each then knows where it stands."""
    enough, answered = threading.Event(), []

    def send_on(sender: int) -> None:
        with closing(web.connect()) as connection:
            send_over(connection, sender)

    def send_over(connection: http.client.HTTPConnection, sender: int) -> None:
        for number in count():
            body = json.dumps(
                {
                    "group": "g",
                    "external_id": f"{sender}-{number}",
                    "sender": {"id": f"s-{sender}"},
                    "text": "hello",
                }
            )
            try:
                status, answer = web.call(connection, "POST", "/api/v1/messages", body)
            except (OSError, http.client.HTTPException):
                return
            if status == 201:
                answered.append((json.loads(answer)["id"], f"{sender}-{number}"))
            else:
                assert status == 503, answer
            if len(answered) > 300:
                enough.set()

    with ThreadPoolExecutor(24) as pool:
        senders = [pool.submit(send_on, sender) for sender in range(24)]
        assert enough.wait(120)
        web.process.terminate()
        for sender in senders:
            sender.result()

    assert web.process.wait(60) is not None
    stored = {
        str(id_): external_id
        for id_, external_id in Message.objects.values_list("id", "external_id")
    }
    assert len(set(stored.values())) == len(stored)
    assert dict(answered).items() <= stored.items()
