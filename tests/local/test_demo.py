"""The demo's traffic: alive, mixed, and of a shape the API takes."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from apps.api.schemas import BATCH_MOST_MESSAGES, MessageIn
from moderation_site.local.demo.disguise import WAYS
from moderation_site.local.demo.scenes import SCENES
from moderation_site.local.demo.traffic import STEP_S, Traffic

HOUR = int(3600 / STEP_S)


def batches(seed: int, steps: int) -> list[list[dict[str, Any]]]:
    traffic = Traffic(run="test", random=Random(seed))
    return list(itertools.islice(traffic.steps(), steps))


@pytest.fixture(scope="module")
def hour() -> list[list[dict[str, Any]]]:
    return batches(seed=1, steps=HOUR)


def test_the_same_seed_says_the_same() -> None:
    assert batches(seed=7, steps=500) == batches(seed=7, steps=500)
    assert batches(seed=7, steps=500) != batches(seed=8, steps=500)


def test_every_batch_is_one_the_api_takes(hour: list[list[dict[str, Any]]]) -> None:
    assert max(map(len, hour)) <= BATCH_MOST_MESSAGES
    for message in itertools.chain(*hour):
        msgspec.convert(message, MessageIn)


def test_no_key_is_used_twice(hour: list[list[dict[str, Any]]]) -> None:
    keys = Counter(
        (m["group"], m["external_id"], m.get("revision", 1)) for m in itertools.chain(*hour)
    )
    assert keys.most_common(1)[0][1] == 1


def test_an_edit_follows_what_it_edits(hour: list[list[dict[str, Any]]]) -> None:
    seen: set[str] = set()
    edits = 0
    for message in itertools.chain(*hour):
        if message.get("revision", 1) > 1:
            edits += 1
            assert message["external_id"] in seen
        seen.add(message["external_id"])
    assert edits > 10


def test_a_reply_quotes_a_message_of_its_own_group(hour: list[list[dict[str, Any]]]) -> None:
    messages = [m for m in itertools.chain(*hour) if "revision" not in m]
    by_id = {message["external_id"]: message for message in messages}
    replies = [message for message in messages if "reply_to" in message]
    assert len(replies) > 100
    for reply in replies:
        answered = by_id[reply["reply_to"]]
        assert answered["group"] == reply["group"]
        assert answered["text"] == reply["quoted_text"]


def test_both_languages_and_every_group_are_heard(hour: list[list[dict[str, Any]]]) -> None:
    groups = Counter(message["group"] for message in itertools.chain(*hour))
    assert set(groups) == {scene.group for scene in SCENES}
    chinese = sum(count for group, count in groups.items() if not group.isascii())
    assert 0.2 < chinese / groups.total() < 0.8


def test_there_are_bursts_far_above_the_usual_rate(hour: list[list[dict[str, Any]]]) -> None:
    sizes = sorted(map(len, hour))
    assert sizes[-1] >= 10
    assert sizes[len(sizes) // 2] <= 3


def test_raids_hide_behind_invisible_characters(hour: list[list[dict[str, Any]]]) -> None:
    hidden = [
        m for m in itertools.chain(*hour) if any(unicodedata.category(c) == "Cf" for c in m["text"])
    ]
    assert len(hidden) > 20


@pytest.mark.parametrize("way", sorted(set(WAYS), key=lambda way: way.__name__))
def test_a_disguise_leaves_something_to_read(way: Any) -> None:
    for seed in range(50):
        assert len(way("Earn money from home today", Random(seed))) >= len("Earn money")
