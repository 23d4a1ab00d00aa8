"""The order in which chunks are served: no group waits behind another's burst."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.chat.backlog import MESSAGES_PER_CHUNK, OWN_CHUNK_FROM, SHARED_LANE, plan_chunks
from apps.chat.models import Chunk
from apps.chat.services import NewMessage, ingest_messages


@given(st.lists(st.sampled_from("abc"), max_size=900))
def test_every_message_is_in_one_chunk_and_keeps_its_order(groups: list[str]) -> None:
    plans = plan_chunks(groups)

    positions = sorted(p for plan in plans for p in plan.positions)
    assert positions == list(range(len(groups)))
    assert all(len(plan.positions) <= MESSAGES_PER_CHUNK for plan in plans)
    assert all(list(plan.positions) == sorted(plan.positions) for plan in plans)


def test_a_large_group_gets_a_lane_of_its_own_and_small_ones_share() -> None:
    groups = ["big"] * OWN_CHUNK_FROM + ["a"] * 3 + ["b"]

    big, shared = plan_chunks(groups)

    assert (len(big.positions), big.cost) == (OWN_CHUNK_FROM, OWN_CHUNK_FROM)
    assert (len(shared.positions), shared.lane, shared.cost) == (4, SHARED_LANE, 3)
    assert big.lane != SHARED_LANE


def test_chunks_of_one_request_follow_each_other() -> None:
    plans = plan_chunks(["g"] * 600)

    assert [(plan.skip, plan.cost) for plan in plans] == [(0, 256), (256, 256), (512, 88)]


def test_a_group_has_one_lane_for_ever() -> None:
    assert plan_chunks(["g"])[0].lane == plan_chunks(["g"] * 300)[1].lane
    assert plan_chunks(["g"])[0].lane != plan_chunks(["h"])[0].lane


@pytest.mark.django_db
def test_a_quiet_group_is_served_before_the_rest_of_a_burst() -> None:
    def send(group: str, first: int, count: int) -> None:
        ingest_messages(
            messages=[
                NewMessage(group=group, external_id=f"{first + n}", sender="s", text="x")
                for n in range(count)
            ]
        )

    for first in range(0, 3_000, 1_000):
        send("burst", first, 1_000)
    send("quiet", 0, 1)

    in_turn = list(Chunk.objects.order_by("start_tag", "id").values_list("size", flat=True))
    assert len(in_turn) == 13
    assert in_turn.index(1) <= 1
    burst = Chunk.objects.exclude(size=1).order_by("id").values_list("start_tag", "finish_tag")
    assert all(before[1] == after[0] for before, after in pairwise(burst))
