"""The web process as it is run: real sockets, one port, and an end that loses nothing."""

from __future__ import annotations

import http.client
import json
import socket
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
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as connect_socket

from apps.accounts.services import create_api_key
from apps.chat.models import Message

PROJECT = Path(__file__).resolve().parents[2]


class Web:
    """A uvicorn process over the test's database, with the socket that it is given."""

    def __init__(self, listening: socket.socket, environment: dict[str, str], secret: str) -> None:
        self.port = listening.getsockname()[1]
        self._secret = secret
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "uvicorn", "moderation_site.asgi:application"),
                *("--fd", str(listening.fileno()), "--no-access-log", "--log-level", "warning"),
                *("--ws", "moderation_site.sockets:WireProtocol"),
                *("--ws-per-message-deflate", "false"),
            ],
            cwd=PROJECT,
            env=environment,
            pass_fds=(listening.fileno(),),
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
    with socket.create_server(("127.0.0.1", 0)) as listening:
        web = Web(listening, environment, create_api_key(name="backend")[1])
        # Ours is closed: once the process ends, nobody listens.
        listening.close()
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


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "chunked"])
@pytest.mark.parametrize("path", ["/api/v1/messages", "/sign-in/"])
def test_who_sends_too_much_is_told_so_however_long_it_goes_on(
    web: Web, path: str, is_declared: bool
) -> None:
    """It must read the whole: a connection closed under a body is reset, and the answer lost."""
    part, parts = b" " * 65_536, 400
    with closing(web.connect()) as connection:
        connection.putrequest("POST", path)
        connection.putheader("Authorization", f"Bearer {web._secret}")
        connection.putheader("Content-Type", "application/json")
        if is_declared:
            connection.putheader("Content-Length", str(len(part) * parts))
        else:
            connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for _ in range(parts):
            connection.send(part if is_declared else b"%x\r\n%b\r\n" % (len(part), part))
        if not is_declared:
            connection.send(b"0\r\n\r\n")
        answer = connection.getresponse()
        assert (answer.status, answer.read() != b"") == (413, True)

        # And no part of the body is taken for a request.
        assert web.call(connection, "GET", "/healthz")[0] == 200


def test_a_websocket_that_there_is_not_is_refused(web: Web) -> None:
    for path in ("/ws/nothing/", "/ws/operate", "/api/v1/messages", "/"):
        with pytest.raises(InvalidStatus) as refusal:
            connect_socket(
                f"ws://127.0.0.1:{web.port}{path}", origin=f"http://127.0.0.1:{web.port}"
            )
        assert refusal.value.response.status_code == 403


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
