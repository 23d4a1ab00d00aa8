"""Judging a batch is judging each message; thresholds are each group's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from apps.chat.models import Group
from apps.policies.judging import LABELS, Limits, Thresholds, judge
from apps.policies.models import Label, PolicyVersion, Threshold
from apps.scoring import rulebook
from apps.scoring.rulebook import ACTIONS, Rulebook, judge_many
from tests.factories import GroupFactory, PolicyFactory
from tests.scoring.conftest import Publish, term

# Coarse, so that ties and scores right on a limit are common.
steps = st.integers(0, 10).map(lambda n: n / 10)
limits = st.tuples(steps, steps).map(sorted).map(lambda pair: Limits(*pair))
some_thresholds = st.dictionaries(st.sampled_from([Label.SPAM, Label.TOXIC, Label.AD]), limits).map(
    lambda chosen: Thresholds(version_id=1, number=1, limits=chosen)
)


@given(st.lists(st.tuples(steps, steps, steps, steps), min_size=1, max_size=20), some_thresholds)
def test_batch_is_judged_as_each_message_is(
    scores: list[tuple[float, ...]], thresholds: Thresholds
) -> None:
    labels, actions, acting = judge_many(np.array(scores), thresholds)
    for index, row in enumerate(scores):
        expected = judge(row, thresholds)
        assert LABELS[labels[index]] is expected.label
        assert ACTIONS[actions[index]] is expected.action
        assert (LABELS[acting[index]] if acting[index] >= 0 else None) is expected.acting_label


def group_with_own_policy(spam_hold: float) -> tuple[Group, PolicyVersion]:
    version = PolicyVersion.objects.create(policy=PolicyFactory.create(), number=1)
    Threshold.objects.create(version=version, label=Label.SPAM, hold=spam_hold, remove=1.0)
    return GroupFactory.create(policy=version.policy), version


def test_each_group_is_judged_by_its_own_policy() -> None:
    strict, version = group_with_own_policy(spam_hold=0.1)
    plain = GroupFactory.create()
    book = Rulebook()
    book.refresh()
    scores = np.array([[0.7, 0.3, 0.0, 0.0]] * 3)
    judged = book.judge([strict.pk, plain.pk, strict.pk], scores)
    assert [ACTIONS[action] for action in judged.actions] == ["hold", "allow", "hold"]
    assert judged.version_ids[0] == judged.version_ids[2] == version.pk
    assert judged.version_ids[1] == book.version_id(plain.pk) != version.pk


def test_new_version_is_in_force_at_the_next_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    group, version = group_with_own_policy(spam_hold=0.9)
    book = Rulebook()
    book.refresh()
    newer = PolicyVersion.objects.create(policy=version.policy, number=2)
    Threshold.objects.create(version=newer, label=Label.SPAM, hold=0.2, remove=1.0)
    book.refresh()
    assert book.version_id(group.pk) == version.pk, "read a moment ago"
    monkeypatch.setattr(rulebook, "REFRESH_EVERY_S", 0.0)
    book.refresh()
    assert book.version_id(group.pk) == newer.pk


def test_version_is_never_seen_without_its_lists_while_another_thread_reads(
    publish: Publish,
) -> None:
    publish(term("pills"))
    group = GroupFactory.create()
    book = Rulebook()
    book.refresh()
    publish(term("casino"))
    with another_connection() as lists_held_up, ThreadPoolExecutor(1) as threads:
        lists_held_up.execute("LOCK TABLE policies_rule")
        reading = threads.submit(refresh_apart, book)
        try:
            wait_until_somebody_waits_for(lists_held_up, "policies_rule")
            matcher = book.matcher(group.pk)
        finally:
            lists_held_up.rollback()
        reading.result()
    assert matcher is not None, "a whole batch would pass the lists by"
    assert matcher.match("cheap pills") is not None
    both = book.matcher(group.pk)
    assert both is not None
    assert both.match("the casino") is not None


def refresh_apart(book: Rulebook) -> None:
    try:
        book.refresh()
    finally:
        connection.close()


def wait_until_somebody_waits_for(watcher: psycopg.Connection[Any], table: str) -> None:
    deadline_s = time.monotonic() + 30
    while not watcher.execute(
        "SELECT 1 FROM pg_locks WHERE relation = %s::regclass AND NOT granted", [table]
    ).fetchone():
        assert time.monotonic() < deadline_s, "nobody reads the lists"


@contextmanager
def another_connection() -> Iterator[psycopg.Connection[Any]]:
    params = connection.get_connection_params()
    with psycopg.connect(
        **{k: params[k] for k in ("dbname", "user", "password", "host", "port") if k in params}
    ) as found:
        yield found
