"""Messages with edits and deletions while processes are killed and frozen at random, seeded.

Each trial sends messages by REST to a running stack; meanwhile workers, Triton replicas (now and
then all of them), Redis and PostgreSQL are killed with SIGKILL or stopped for some seconds, and the
supervisor restarts what died. Lists decide of some messages, of some only while Triton is away.
Then every stored revision must have exactly one verdict besides what the lists said in an outage,
the one that its own text gets when lists and Triton are asked directly; a deleted message none that
came after its deletion; every held message one review item; every verdict must be told by one
outbox event, and by no second one. Trials repeat until the time is over.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib
import json
import os
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from urllib.parse import urlencode, urlsplit

import django
import psutil
import psycopg
from django.apps import apps as registry

from benchmarks.stack import read_ready, running_stack
from benchmarks.texts import chat_texts
from inference import LABELS, Classification, ClientConfig, ModerationClient, ReplicaConfig

VICTIMS = ("worker", "worker-2", "triton-1", "triton-2", "redis", "postgres", "triton")
TRITONS = ("triton-1", "triton-2")
# Of the texts' own words: one entry that always decides, one that does only while Triton is away.
ALWAYS = ("term", "crypto signals", "ad", "remove", False)
AWAY = ("term", "selling", "spam", "hold", True)
PAUSE_S = (0.8, 2.5)
FROZEN_S = (0.5, 7.0)
SENDERS = 4
BATCH = 200
EDITED, DELETED = 0.15, 0.05
# After the last blow: restarts, leases and the backlog.
HEALED_WITHIN_S = 240.0
LEASE_S = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=20_000, help="a trial (%(default)s)")
    parser.add_argument("--minutes", type=float, default=0.0, help="repeat trials for so long")
    parser.add_argument("--blows", type=int, default=15, help="a trial (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")


def run(options: dict[str, Any]) -> dict[str, Any]:
    until_s = time.monotonic() + options["minutes"] * 60
    trials: list[dict[str, Any]] = []
    stack = ("--replicas", "2", "--workers", "2")
    with running_stack(options["stack"], *stack, SCORING_LEASE_S=str(LEASE_S)) as ready:
        while not trials or time.monotonic() < until_s:
            seed = options["seed"] + len(trials)
            trials.append(
                {"seed": seed, **Trial(ready, options["messages"], options["blows"], seed).run()}
            )
    totals = Counter[str]()
    for trial in trials:
        totals.update({name: value for name, value in trial.items() if name != "seed"})
    return {"trials": len(trials), **totals, "by_trial": trials}


@dataclass(frozen=True)
class Sent:
    """One thing a backend does: a batch of revisions, or a deletion."""

    method: str
    path: str
    body: bytes


@dataclass
class Trial:
    """One seeded course of events and what is found afterwards."""

    ready: dict[str, Any]
    messages: int
    blows: int
    seed: int
    blows_done: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def run(self) -> dict[str, Any]:
        source = random.Random(self.seed)
        self._publish_entries()
        texts = chat_texts(self.messages * 2, seed=self.seed)
        with ThreadPoolExecutor(1) as breaker:
            breaking = breaker.submit(self._break_things, source.random())
            self._send(list(self._plan(texts, source)))
            breaking.result()
        self._wait_until_healed()
        return {
            "messages": self.messages,
            "kills": self.kills.total() - self.kills["frozen"],
            "freezes": self.kills["frozen"],
            **self._verify(),
        }

    def _publish_entries(self) -> None:
        """As an admin does: a new version of the default policy, with a list."""
        with self._database() as database, database.transaction():
            list_id = _one(database, "INSERT INTO policies_rulelist DEFAULT VALUES RETURNING id")
            for kind, pattern, label, action, only_away in (ALWAYS, AWAY):
                key = _matching().RuleSpec(kind, pattern, label, action).key[1]
                row = [list_id, kind, pattern, key, label, action, only_away]
                database.execute(_ADD_RULE, row)
            version_id = _one(database, _ADD_VERSION, [list_id])
            database.execute(_COPY_THRESHOLDS, [version_id, version_id])

    # ---------- what backends do ----------

    def _plan(self, texts: Sequence[str], source: random.Random) -> Iterator[Sent]:
        for start in range(0, self.messages, BATCH):
            numbers = range(start, min(start + BATCH, self.messages))
            yield self._batch([(n, 1, texts[n]) for n in numbers])
            edited = [n for n in numbers if source.random() < EDITED]
            if edited:
                yield self._batch([(n, 2, texts[self.messages + n]) for n in edited])
            for number in numbers:
                if source.random() < DELETED:
                    query = urlencode(
                        {"group": self._group(number), "external_id": self._id(number)}
                    )
                    yield Sent("DELETE", f"/api/v1/messages?{query}", b"")

    def _batch(self, revisions: Sequence[tuple[int, int, str]]) -> Sent:
        messages = [
            {
                "group": self._group(number),
                "external_id": self._id(number),
                "revision": revision,
                "sender": {"id": f"sender-{number % 997}"},
                "text": text,
            }
            for number, revision, text in revisions
        ]
        body = json.dumps({"messages": messages}, ensure_ascii=False).encode()
        return Sent("POST", "/api/v1/messages:batch", body)

    def _group(self, number: int) -> str:
        return f"chaos-{self.run_id}-{number % 23}"

    def _id(self, number: int) -> str:
        return f"{self.run_id}-{number}"

    def _send(self, plan: Sequence[Sent]) -> None:
        todo = iter(enumerate(plan))
        lock = threading.Lock()

        def work() -> None:
            sender = _Sender(self.ready)
            while True:
                with lock:
                    number, sent = next(todo, (0, None))
                if sent is None:
                    return
                # Spread over the blows: something is on its way whenever one falls.
                while number / len(plan) > (self.blows_done + 1) / (self.blows + 1):
                    time.sleep(0.02)
                sender.deliver(sent)

        with ThreadPoolExecutor(SENDERS) as pool:
            for done in [pool.submit(work) for _ in range(SENDERS)]:
                done.result()

    # ---------- what goes wrong ----------

    def _break_things(self, seed: float) -> None:
        source = random.Random(seed)
        try:
            for _ in range(self.blows):
                time.sleep(source.uniform(*PAUSE_S))
                freeze_s = source.uniform(*FROZEN_S) if source.random() < 0.4 else 0.0
                victim = source.choice(VICTIMS)
                for name in TRITONS if victim == "triton" else (victim,):
                    self._strike(name, 0.0 if victim == "triton" else freeze_s)
                self.blows_done += 1
        finally:
            self.blows_done = self.blows  # whoever waits for the next blow goes on

    def _strike(self, name: str, freeze_s: float) -> None:
        pid = read_ready(self.ready["ready_file"])["pids"].get(name)
        if pid is None:
            return  # it is just being restarted: it has had its blow already
        with contextlib.suppress(psutil.NoSuchProcess):
            if freeze_s:
                _freeze(psutil.Process(pid), freeze_s)
                self.kills["frozen"] += 1
            else:
                psutil.Process(pid).kill()
                self.kills[name] += 1

    def _wait_until_healed(self) -> None:
        until_s = time.monotonic() + HEALED_WITHIN_S
        while time.monotonic() < until_s:
            try:
                with self._database() as database:
                    if not _one(database, "SELECT count(*) FROM chat_chunk"):
                        return
            except psycopg.OperationalError:
                pass  # PostgreSQL is still on its way up
            time.sleep(0.25)

    # ---------- what is found ----------

    def _database(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.ready["database_url"], autocommit=True, connect_timeout=5)

    def _verify(self) -> dict[str, int]:
        with self._database() as database:
            database.execute("SET work_mem = '64MB'")
            pattern = f"chaos-{self.run_id}-%"
            rows = database.execute(_REVISIONS, [pattern]).fetchall()
            waiting = _one(database, "SELECT coalesce(sum(size), 0) FROM chat_chunk")
            held = _one(database, _HELD_WITHOUT_ITEM, [pattern])
            outbox = database.execute(_OUTBOX).fetchone()
        assert outbox is not None
        living = [row for row in rows if not row[2]]
        texts = {text: "" for _, text, *_ in living}
        expected = dict(zip(texts, self._ask_triton(list(texts)), strict=True))
        ruled = _ruled(ALWAYS, texts)
        expected |= ruled
        alone = _ruled(AWAY, texts) | ruled
        return {
            "revisions": len(rows),
            "deleted": len(rows) - len(living),
            "not_stored": self.messages - len({row[0] for row in rows}),
            "lost": sum(len(labels) == 0 for _, _, _, labels, _, _ in living),
            # Not lost, but not healed in time either.
            "still_waiting": waiting,
            "doubled": sum(len(labels) > 1 for _, _, _, labels, _, _ in rows),
            "wrong": sum(
                label is not None and label != expected[text]
                for _, text, _, labels, _, _ in living
                for label in labels
            ),
            "ruled": sum(text in ruled for _, text, *_ in living),
            "fallbacks": sum(label is not None for *_, label in rows),
            "wrong_fallbacks": sum(
                label is not None and label != alone.get(text) for _, text, *_, label in living
            ),
            "undetermined": sum(label is None for *_, labels, _, _ in living for label in labels),
            "judged_after_deletion": sum(row[4] for row in rows),
            "held_without_item": held,
            "outbox_twice": outbox[0],
            "outbox_missing": outbox[1],
            "outbox_unfounded": outbox[2],
        }

    def _ask_triton(self, texts: list[str]) -> list[str]:
        replicas = [ReplicaConfig(r["name"], grpc=r["grpc"]) for r in self.ready["triton"]]
        with ModerationClient(ClientConfig(replicas)) as client:
            answers: list[Classification] = []
            for start in range(0, len(texts), 256):
                answers += client.classify(texts[start : start + 256])
        return [LABELS[max(range(4), key=answer.scores.__getitem__)] for answer in answers]


# Each stored revision: its id, text, whether deleted, its verdicts' labels, how many came after the
# deletion, which is dated when it has waited for verdicts under way, and what the lists said alone.
_REVISIONS = """
SELECT message.external_id, message.text, message.deleted_at IS NOT NULL,
  coalesce(array_agg(verdict.label) FILTER (WHERE verdict.source <> 'fallback'), '{}'),
  count(*) FILTER (WHERE verdict.created_at > message.deleted_at),
  max(verdict.label) FILTER (WHERE verdict.source = 'fallback')
FROM chat_group AS its
JOIN chat_message AS message ON message.group_id = its.id
LEFT JOIN scoring_verdict AS verdict ON verdict.message_id = message.id
WHERE its.external_id LIKE %s
GROUP BY message.id
"""
_HELD_WITHOUT_ITEM = """
SELECT count(*) FROM chat_group AS its
JOIN chat_message AS message ON message.group_id = its.id
JOIN scoring_verdict AS verdict ON verdict.message_id = message.id
LEFT JOIN review_reviewitem AS item ON item.message_id = message.id
WHERE its.external_id LIKE %s AND verdict.action = 'hold' AND item.message_id IS NULL
"""
# Verdicts told more than once, told never, and told without being there.
_OUTBOX = """
WITH told AS (
  SELECT (event.payload ->> 'release_id')::bigint AS release_id, message_id, count(*) AS times
  FROM webhooks_outboxevent AS event,
    jsonb_array_elements(event.payload -> 'ranges') AS span,
    generate_series((span ->> 0)::bigint, (span ->> 1)::bigint) AS message_id
  WHERE event.kind = 'verdicts.stored' GROUP BY 1, 2
)
SELECT count(*) FILTER (WHERE told.times > 1), count(*) FILTER (WHERE told.times IS NULL),
  count(*) FILTER (WHERE verdict.source IS NULL)
FROM told FULL JOIN scoring_verdict AS verdict USING (message_id, release_id)
"""
_ADD_RULE = """
INSERT INTO policies_rule (rule_list_id, kind, pattern, key, label, action, only_away)
VALUES (%s, %s, %s, %s, %s, %s, %s)
"""
_ADD_VERSION = """
INSERT INTO policies_policyversion (policy_id, number, note, rule_list_id)
SELECT policy_id, max(number) + 1, 'chaos', %s FROM policies_policyversion
WHERE policy_id = (SELECT id FROM policies_policy WHERE is_default) GROUP BY 1 RETURNING id
"""
_COPY_THRESHOLDS = """
INSERT INTO policies_threshold (version_id, label, hold, remove)
SELECT %s, label, hold, remove FROM policies_threshold AS old
WHERE old.version_id = (
  SELECT before.id FROM policies_policyversion AS before
  JOIN policies_policyversion AS newest USING (policy_id)
  WHERE newest.id = %s AND before.number = newest.number - 1
)
"""


def _matching() -> ModuleType:
    """The product's matcher. It needs Django's models, and benchmarks run before there are
    settings for them: these read no database.
    """
    if not registry.ready:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "moderation_site.settings")
        os.environ.setdefault("SECRET_KEY", "for-a-benchmark-only")
        django.setup()
    return importlib.import_module("apps.policies.matching")


def _ruled(entry: Sequence[Any], texts: Iterable[str]) -> dict[str, str]:
    """The texts that hold an entry, each with its label."""
    matching = _matching()
    kind, pattern, label, action, _ = entry
    matcher = matching.Matcher([(1, matching.RuleSpec(kind, pattern, label, action))])
    return {text: label for text in texts if matcher.match(text) is not None}


def _one(database: psycopg.Connection[Any], query: Any, parameters: Sequence[Any] = ()) -> int:
    row = database.execute(query, parameters).fetchone()
    assert row is not None
    return int(row[0])


def _freeze(process: psutil.Process, for_s: float) -> None:
    family = [process, *process.children(recursive=True)]
    for member in family:
        member.suspend()
    time.sleep(for_s)
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.resume()


class _Sender:
    """Delivers as a backend does: until it is told that it was taken."""

    def __init__(self, ready: dict[str, Any]) -> None:
        url = urlsplit(ready["url"])
        self._where = (url.hostname or "", url.port)
        self._headers = {
            "Authorization": f"Bearer {ready['api_key']}",
            "Content-Type": "application/json",
        }

    def deliver(self, sent: Sent) -> None:
        until_s = time.monotonic() + HEALED_WITHIN_S
        while time.monotonic() < until_s:
            if self._try(sent):
                return
            time.sleep(0.2)
        raise SystemExit(f"{sent.method} was not taken within {HEALED_WITHIN_S:.0f} s")

    def _try(self, sent: Sent) -> bool:
        connection = http.client.HTTPConnection(*self._where, timeout=30)
        try:
            connection.request(sent.method, sent.path, sent.body or None, self._headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if response.status >= 500 or response.status == 429:
            return False
        if response.status >= 400:
            raise SystemExit(f"The API answered {response.status}: {answer[:300]!r}")
        if sent.method == "DELETE":
            return True
        return all("message" in one for one in json.loads(answer)["results"])
