"""Deciding by the lists alone, while the model is away or an operator wants it so.

Chunks stay in the backlog: only what a blocking entry decides gets a verdict, of `source=fallback`
and of the rules' own release, and the model judges all of them when it is back. A chunk remembers
with which policy version it was looked at, so it is looked at once, and again when an entry is
added during the outage. Each look is one transaction over chunks that nobody has claimed; killed
at any line it either happened or did not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.db import connection, transaction

from apps.scoring.claims import Cursor, WaitingMessage, fetch_without_verdict, raw_cursor
from apps.scoring.rulebook import Rulebook
from apps.scoring.ruling import rule_alone
from apps.scoring.sinks import StoredVerdict
from apps.scoring.verdicts import Timing, insert_verdicts

# Locked and read at once; a fraction of a second's work with full chunks and a long list.
_CHUNKS = 64
# From the beginning again: chunks that were claimed or locked when it was their turn.
_LOOK_BACK_EVERY_S = 10.0

_TAKE = """
SELECT id, (extract(epoch FROM now() - created_at) * 1000)::float8 FROM chat_chunk
WHERE id > %(after)s AND ruled_version < %(version)s AND (claim_id IS NULL OR lease_until < now())
ORDER BY id LIMIT %(chunks)s FOR UPDATE SKIP LOCKED
"""
_MARK = "UPDATE chat_chunk SET ruled_version = %s WHERE id = ANY(%s)"


class Fallback:
    """One worker's looks. Remembers how far it has come, to read the backlog once."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._rulebook = rulebook
        self._after = 0
        self._version = 0
        self._began_at_s = 0.0

    def decide_some(self) -> list[StoredVerdict] | None:
        """Look at the next chunks that wait.

        Returns:
            The verdicts that were stored; None when there is nothing to look at.

        Raises:
            django.db.OperationalError: the database is away; nothing was stored.
        """
        self._rulebook.refresh()
        if not self._rulebook.has_rules:
            return None
        self._start_over_if_due()
        with transaction.atomic():
            return self._decide()

    def _start_over_if_due(self) -> None:
        version, now_s = self._rulebook.newest_version_id, time.monotonic()
        if version != self._version or now_s - self._began_at_s > _LOOK_BACK_EVERY_S:
            self._after, self._version, self._began_at_s = 0, version, now_s

    def _decide(self) -> list[StoredVerdict] | None:
        with connection.wrap_database_errors, raw_cursor() as cursor:
            waited_ms = self._take(cursor)
            if not waited_ms:
                return None
            messages = fetch_without_verdict(cursor, list(waited_ms))
            verdicts = self._store(cursor, messages, waited_ms)
            cursor.execute(_MARK, [self._version, list(waited_ms)])
        self._after = max(waited_ms)
        return verdicts

    def _take(self, cursor: Cursor) -> dict[int, float]:
        """Lock the next chunks; how long each has waited, by id."""
        cursor.execute(_TAKE, {"after": self._after, "version": self._version, "chunks": _CHUNKS})
        return {id_: max(0.0, waited_ms) for id_, waited_ms in cursor.fetchall()}

    def _store(
        self, cursor: Cursor, messages: Sequence[WaitingMessage], waited_ms: dict[int, float]
    ) -> list[StoredVerdict]:
        verdicts, _ = rule_alone(messages, self._rulebook)
        timings = []
        for verdict in verdicts:
            queue_ms = waited_ms[verdict.chunk_id]
            timings.append(Timing(queue_ms, 0.0, queue_ms))
        insert_verdicts(cursor, verdicts, timings)
        return verdicts
