from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference import ModelRef, ReleaseShare, Shadow, TrafficSplit

STABLE, CANARY, NEXT = (ModelRef("moderation", version) for version in "123")
KEYS = [f"group-{index}" for index in range(4000)]


def split(canary: float, shadows: tuple[Shadow, ...] = ()) -> TrafficSplit:
    return TrafficSplit([ReleaseShare(CANARY, canary), ReleaseShare(STABLE, 1 - canary)], shadows)


@given(canary=st.floats(0, 1))
def test_shares_are_kept(canary: float) -> None:
    subject = split(canary)
    hit = sum(subject.route(key).release == CANARY for key in KEYS)
    assert hit / len(KEYS) == pytest.approx(canary, abs=0.04)


@given(key=st.text(), canary=st.floats(0, 1))
def test_a_group_always_meets_the_same_release(key: str, canary: float) -> None:
    assert split(canary).route(key) == split(canary).route(key)


@given(before=st.floats(0, 1), after=st.floats(0, 1))
def test_changing_the_share_moves_only_what_it_must(before: float, after: float) -> None:
    low, high = sorted((before, after))
    narrow, wide = split(low), split(high)
    for key in KEYS[:200]:
        if narrow.route(key).release == CANARY:
            assert wide.route(key).release == CANARY


def test_an_explicit_release_wins() -> None:
    assert split(0.5).route("group", explicit=NEXT).release == NEXT


def test_a_shadow_sees_its_sample_and_never_judges_itself() -> None:
    subject = split(0.0, (Shadow(NEXT, 0.25), Shadow(STABLE, 1.0)))
    routes = [subject.route(key) for key in KEYS]
    assert all(route.release == STABLE for route in routes)
    assert all(STABLE not in route.shadows for route in routes)
    sampled = sum(NEXT in route.shadows for route in routes)
    assert sampled / len(KEYS) == pytest.approx(0.25, abs=0.04)


def test_the_split_is_the_same_in_every_process() -> None:
    # hash() would differ; this value may change only with a reason, since it moves every group.
    routed = [split(0.5).route(f"g{index}").release.version for index in range(12)]
    assert "".join(routed) == EXPECTED


EXPECTED = "221212221221"


@pytest.mark.parametrize(
    "shares",
    [
        [ReleaseShare(STABLE, 0.5)],
        [ReleaseShare(STABLE, 1.5), ReleaseShare(CANARY, -0.5)],
        [ReleaseShare(STABLE, 0.5), ReleaseShare(STABLE, 0.5)],
        [],
    ],
)
def test_shares_that_make_no_whole_are_refused(shares: list[ReleaseShare]) -> None:
    with pytest.raises(ValueError, match=r"share|release"):
        TrafficSplit(shares)
