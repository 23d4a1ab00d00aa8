"""How fast it all is, for programs."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from apps.scoring.samples import write_sample
from tests.api.conftest import Api, is_problem
from tests.scoring.test_stages import sample

pytestmark = pytest.mark.django_db(transaction=True)


async def test_stages_come_in_order_over_all_and_by_class(api: Api) -> None:
    measured = {"total:single": [5.0, 5.0], "total:backlog": [9_000.0], "queue:single": [1.0]}
    await sync_to_async(write_sample)(sample(measured))

    found = (await api.client.get("/api/v1/stages")).json()

    assert found["window_s"] == 60
    told = [(each["stage"], each["message_class"], each["count"]) for each in found["stages"]]
    assert told == [
        ("queue", None, 1),
        ("queue", "single", 1),
        ("total", None, 3),
        ("total", "single", 2),
        ("total", "backlog", 1),
    ]
    assert found["stages"][-1]["max_ms"] == 9_000.0


async def test_nothing_measured_is_nothing_told(api: Api) -> None:
    found = (await api.client.get("/api/v1/stages?window_s=300")).json()
    assert found == {"window_s": 300, "stages": []}


@pytest.mark.parametrize("value", ["0", "301", "-1", "x", "1.5", "1e2", "", "9" * 30, "\u0663"])
async def test_window_that_cannot_be_is_refused(api: Api, value: str) -> None:
    answer = await api.client.get("/api/v1/stages", params={"window_s": value})
    if value == "":
        assert answer.json()["window_s"] == 60
    else:
        is_problem(answer, 422, "invalid-request")


async def test_it_needs_a_key(api: Api) -> None:
    answer = await api.client.get("/api/v1/stages", headers={"Authorization": "Bearer no"})
    is_problem(answer, 401, "unauthenticated")
