"""Sends the demo's traffic by REST, as a chat backend would: `… demo URL`, key in DEMO_API_KEY."""

from __future__ import annotations

import http.client
import json
import logging
import os
import sys
import time
from random import SystemRandom
from urllib.parse import urlsplit

from moderation_site.local.demo.traffic import STEP_S, Message, Traffic

logger = logging.getLogger("demo")

TIMEOUT_S = 10.0
PAUSE_AFTER_FAILURE_S = 2.0


class Backend:
    """One kept-alive connection to the API."""

    def __init__(self, url: str, api_key: str) -> None:
        where = urlsplit(url)
        self._connection = http.client.HTTPConnection(
            where.hostname or "127.0.0.1", where.port, timeout=TIMEOUT_S
        )
        self._headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}

    def send(self, messages: list[Message]) -> None:
        """Posts one batch.

        Raises:
            OSError, http.client.HTTPException: It could not be delivered, or was refused.
        """
        body = json.dumps({"messages": messages})
        try:
            self._connection.request("POST", "/api/v1/messages:batch", body, self._headers)
            response = self._connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens another
            raise
        if response.status >= 400:
            raise http.client.HTTPException(f"answered {response.status}")


def main() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level="INFO")
    random = SystemRandom()
    backend = Backend(sys.argv[1], os.environ["DEMO_API_KEY"])
    next_s = time.monotonic()
    for batch in Traffic(run=f"{int(time.time()):x}", random=random).steps():
        if batch:
            _send_or_drop(backend, batch)
        next_s = max(next_s + STEP_S, time.monotonic() - STEP_S)
        time.sleep(max(0.0, next_s - time.monotonic()))


def _send_or_drop(backend: Backend, batch: list[Message]) -> None:
    """A chat goes on while the console is away: what can't be sent is said so and dropped."""
    try:
        backend.send(batch)
    except (OSError, http.client.HTTPException) as error:
        logger.warning("%d messages not delivered: %s", len(batch), error)
        time.sleep(PAUSE_AFTER_FAILURE_S)


if __name__ == "__main__":
    main()
