"""The whole stack under seeded blows; `make chaos` does the same for ten minutes."""

from __future__ import annotations

import pytest

from benchmarks import chaos

SEED = 7


@pytest.mark.timeout(1200)
def test_every_message_is_decided_once_whatever_dies_or_freezes() -> None:
    found = chaos.run(
        {"messages": 20_000, "minutes": 0.0, "seed": SEED, "blows": 12, "stack": None}
    )
    (trial,) = found["by_trial"]
    assert trial["kills"] + trial["freezes"] > 0
    assert trial["revisions"] > 20_000
    assert trial["deleted"] > 0
    assert trial["ruled"] > 0
    wrongs = (
        "not_stored",
        "lost",
        "still_waiting",
        "doubled",
        "wrong",
        "judged_after_deletion",
        "held_without_item",
        "wrong_fallbacks",
        "outbox_twice",
        "outbox_missing",
        "outbox_unfounded",
    )
    assert {name: trial[name] for name in wrongs} == dict.fromkeys(wrongs, 0)
