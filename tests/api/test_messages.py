"""Submitting, asking for and deleting messages."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async

from apps.accounts.models import Role
from apps.audit.models import AuditEvent
from apps.chat.models import Chunk, Message
from apps.policies.models import Action, Label
from apps.releases.models import Release, ReleaseKind
from apps.review.models import Decision, ReviewItem, ReviewState
from apps.scoring.models import Source, Verdict
from tests.api.conftest import Api, is_problem, message, pointers
from tests.factories import ReviewItemFactory, UserFactory, VerdictFactory


class TestSubmit:
    async def test_answers_that_it_is_stored(self, api: Api) -> None:
        sent = message(text="see you: tonight", sent_at="2026-11-30T12:00:00+08:00")
        answer = await api.post(sent)

        assert answer.status_code == 201
        body = answer.json()
        assert body == {
            "id": body["id"],
            "external_id": sent["external_id"],
            "group": "guild",
            "revision": 1,
            "status": "pending",
            "verdict": None,
        }
        assert answer.headers["location"] == f"/api/v1/messages/{body['id']}"
        assert "idempotent-replay" not in answer.headers
        row = await Message.objects.aget(pk=int(body["id"]))
        assert (row.text, row.sent_at.isoformat()) == (
            "see you: tonight",
            "2026-11-30T04:00:00+00:00",
        )

    async def test_a_repeat_answers_as_the_first_did(self, api: Api) -> None:
        sent = message()
        first = await api.post(sent)
        again = await api.post({**sent, "revision": 1})

        assert again.status_code == first.status_code == 201
        assert again.json() == first.json()
        assert again.headers["idempotent-replay"] == "true"
        assert await Message.objects.acount() == 1

    async def test_a_repeat_answers_the_same_once_there_is_a_verdict(self, api: Api) -> None:
        sent = message()
        first = await api.post(sent)
        row = await Message.objects.aget()
        await sync_to_async(VerdictFactory)(message=row)

        assert (await api.post(sent)).json() == first.json()

    async def test_another_text_under_the_same_key_is_refused(self, api: Api) -> None:
        sent = message()
        first = await api.post(sent)
        problem = is_problem(await api.post({**sent, "text": "bye"}), 409, "revision-conflict")

        assert first.json()["id"] in problem["detail"]
        assert pointers(problem) == ["/revision"]
        assert "bye" not in str(problem)

    async def test_an_edit_is_judged_on_its_own(self, api: Api) -> None:
        sent = message()
        first = await api.post(sent)
        second = await api.post({**sent, "revision": 2, "text": "buy gold"})

        assert second.status_code == 201
        assert second.json()["id"] != first.json()["id"]
        assert await Chunk.objects.acount() == 2

    async def test_many_at_once_are_each_stored_once(self, api: Api) -> None:
        messages = [message(sender={"id": f"u-{n % 7}"}) for n in range(50)]
        answers = await asyncio.gather(*[api.post(m) for m in messages * 4])

        assert {answer.status_code for answer in answers} == {201}
        ids = [answer.json()["id"] for answer in answers]
        assert len(set(ids)) == 50
        assert ids == ids[:50] * 4
        replays = [a for a in answers if "idempotent-replay" in a.headers]
        assert len(replays) == 150
        assert await Message.objects.acount() == 50


class TestBatch:
    async def test_answers_in_order(self, api: Api) -> None:
        messages = [message(text=f"text {n}") for n in range(300)]
        results = await api.batch(messages)

        assert {result["status"] for result in results} == {201}
        texts = {row.id: row.text async for row in Message.objects.all()}
        assert [texts[int(r["message"]["id"])] for r in results] == [m["text"] for m in messages]

    async def test_each_item_has_the_status_that_it_would_have_alone(self, api: Api) -> None:
        known = message()
        await api.post(known)
        results = await api.batch(
            [message(), known, {**known, "text": "other"}, message(text=5), None, message()]
        )

        assert [r["status"] for r in results] == [201, 201, 409, 422, 422, 201]
        assert [r.get("replayed", False) for r in results] == [False, True, *[False] * 4]
        assert pointers(results[2]["problem"]) == ["/messages/2/revision"]
        assert pointers(results[3]["problem"]) == ["/messages/3/text"]
        assert pointers(results[4]["problem"]) == ["/messages/4"]
        assert await Message.objects.acount() == 3

    async def test_a_repeat_within_it_is_one_message(self, api: Api) -> None:
        sent = message()
        first, again = await api.batch([sent, sent])

        assert first["message"] == again["message"]
        assert again["replayed"]

    async def test_may_be_empty(self, api: Api) -> None:
        assert await api.batch([]) == []

    async def test_takes_1000_messages_and_not_one_more(self, api: Api) -> None:
        full = [message() for _ in range(1_000)]
        assert len({r["message"]["id"] for r in await api.batch(full)}) == 1_000

        answer = await api.post({"messages": [*full, message()]}, "/api/v1/messages:batch")
        problem = is_problem(answer, 422, "invalid-request")
        assert pointers(problem) == ["/messages"]
        assert await Message.objects.acount() == 1_000


class TestGet:
    async def test_shows_the_models_verdict(self, api: Api) -> None:
        stored = await api.post(message())
        row = await Message.objects.aget()
        await sync_to_async(VerdictFactory)(message=row, reasons=["invisible_chars"])

        found = await api.get(stored.json()["id"])

        assert found["status"] == "decided"
        assert found["verdict"] == {
            "label": "spam",
            "confidence": 0.7,
            "scores": {"ok": 0.2, "spam": 0.7, "toxic": 0.06, "ad": 0.04},
            "action": "hold",
            "source": "model",
            "model": {"name": "moderation", "version": "1"},
            "reasons": ["invisible_chars"],
            "timings_ms": {"queue": 4.0, "inference": 6.0, "total": 12.0},
            "fallback": None,
        }

    async def test_shows_that_nothing_could_judge(self, api: Api) -> None:
        stored = await api.post(message())
        row = await Message.objects.aget()
        await sync_to_async(VerdictFactory)(
            message=row,
            label=None,
            acting_label=None,
            **dict.fromkeys(("score_ok", "score_spam", "score_toxic", "score_ad")),
        )

        found = await api.get(stored.json()["id"])

        assert found["status"] == "undetermined"
        assert (found["verdict"]["label"], found["verdict"]["scores"]) == (None, None)
        assert found["verdict"]["action"] == "hold"

    async def test_the_model_goes_over_the_rules(self, api: Api) -> None:
        stored = await api.post(message())
        await sync_to_async(_judge_by_rules_and_model)()

        found = await api.get(stored.json()["id"])

        assert (found["verdict"]["source"], found["verdict"]["label"]) == ("model", "spam")
        assert found["verdict"]["fallback"] == {"label": "ad", "action": "hold", "changed": True}

    async def test_fallback_alone_has_no_model_and_nothing_to_compare(self, api: Api) -> None:
        stored = await api.post(message())
        await sync_to_async(_judge_by_rules_and_model)()
        await Verdict.objects.filter(source=Source.MODEL).adelete()

        verdict = (await api.get(stored.json()["id"]))["verdict"]

        assert (verdict["source"], verdict["model"]) == ("fallback", None)
        assert verdict["fallback"] is None

    async def test_entry_that_decides_after_an_outage_goes_over_the_fallback(
        self, api: Api
    ) -> None:
        stored = await api.post(message())
        await sync_to_async(_judge_by_rules_and_model)()
        await Verdict.objects.filter(source=Source.MODEL).aupdate(
            source=Source.RULES, label=Label.AD
        )

        verdict = (await api.get(stored.json()["id"]))["verdict"]

        assert (verdict["source"], verdict["model"]) == ("rules", None)
        assert verdict["fallback"] == {"label": "ad", "action": "hold", "changed": False}

    async def test_a_person_goes_over_the_model_until_undone(self, api: Api) -> None:
        stored = await api.post(message())
        decision = await sync_to_async(_decide_by_person)()

        verdict = (await api.get(stored.json()["id"]))["verdict"]
        assert (verdict["source"], verdict["label"], verdict["action"]) == ("person", "ok", "allow")
        assert verdict["confidence"] is None

        await Decision.objects.filter(pk=decision.pk).aupdate(undone_at=decision.decided_at)
        verdict = (await api.get(stored.json()["id"]))["verdict"]
        assert (verdict["source"], verdict["label"]) == ("model", "spam")

    @pytest.mark.parametrize("id_", ["1", "9223372036854775807", "9" * 19, "9" * 40, "-1", "x"])
    async def test_an_id_that_is_none_is_not_found(self, api: Api, id_: str) -> None:
        is_problem(await api.client.get(f"/api/v1/messages/{id_}"), 404, "not-found")

    async def test_several_come_in_the_order_asked_for(self, api: Api) -> None:
        ids = [r["message"]["id"] for r in await api.batch([message(), message(), message()])]
        asked = [ids[2], "1", ids[0], ids[2]]

        answer = await api.client.get("/api/v1/messages", params={"ids": ",".join(asked)})

        found = answer.json()
        assert [m["id"] for m in found["messages"]] == [ids[2], ids[0]]
        assert found["missing"] == ["1"]

    async def test_all_revisions_are_found_by_the_callers_own_ids(self, api: Api) -> None:
        sent = message(external_id="m & 1")
        await api.batch([sent, {**sent, "revision": 5, "text": "edit"}])

        answer = await api.client.get(
            "/api/v1/messages", params={"group": "guild", "external_id": "m & 1"}
        )

        assert [m["revision"] for m in answer.json()["messages"]] == [5, 1]

    @pytest.mark.parametrize(
        ("query", "parameter"),
        [
            ("", "group"),
            ("?group=g", "external_id"),
            ("?group=&external_id=x", "group"),
            ("?ids=", "ids"),
            ("?ids=1,x", "ids"),
            ("?ids=" + ",".join(["1"] * 201), "ids"),
            ("?ids=1&group=g", "ids"),
            ("?ids=1&ids=2", "ids"),
            ("?idz=1", "idz"),
            ("?group=a%00b&external_id=x", "group"),
            ("?group=%ff&external_id=x", "The query"),
        ],
    )
    async def test_a_bad_query_names_its_parameter(
        self, api: Api, query: str, parameter: str
    ) -> None:
        answer = await api.client.get(f"/api/v1/messages{query}")
        problem = is_problem(answer, 422, "invalid-request")
        assert [error["parameter"] for error in problem["errors"]] == [parameter]


class TestDelete:
    async def test_is_final_and_may_be_repeated(self, api: Api) -> None:
        sent = message()
        id_ = (await api.post(sent)).json()["id"]

        for _ in range(2):
            answer = await api.client.delete(f"/api/v1/messages/{id_}")
            assert (answer.status_code, answer.content) == (204, b"")

        assert (await api.get(id_))["status"] == "deleted"
        again = await api.post(sent)
        assert (again.json()["id"], again.json()["status"]) == (id_, "deleted")
        late = await api.post({**sent, "revision": 2, "text": "edit"})
        assert (late.status_code, late.json()["status"]) == (201, "deleted")
        assert (
            await AuditEvent.objects.filter(action="message.deleted", actor_id=api.key.pk).acount()
            == 1
        )

    async def test_hides_the_verdict(self, api: Api) -> None:
        id_ = (await api.post(message())).json()["id"]
        await sync_to_async(VerdictFactory)(message=await Message.objects.aget())
        await api.client.delete(f"/api/v1/messages/{id_}")

        assert (await api.get(id_))["verdict"] is None

    async def test_takes_the_message_out_of_the_review_queue(self, api: Api) -> None:
        id_ = (await api.post(message())).json()["id"]
        await sync_to_async(ReviewItemFactory)(verdict__message=await Message.objects.aget())

        await api.client.delete(f"/api/v1/messages/{id_}")

        item = await ReviewItem.objects.aget()
        assert item.state == ReviewState.WITHDRAWN

    async def test_may_come_before_its_message(self, api: Api) -> None:
        answer = await api.client.delete(
            "/api/v1/messages", params={"group": "guild", "external_id": "early"}
        )
        assert answer.status_code == 204

        late = await api.post(message(external_id="early"))

        assert (late.status_code, late.json()["status"]) == (201, "deleted")
        assert await Chunk.objects.acount() == 0

    async def test_of_an_unknown_id_is_not_found(self, api: Api) -> None:
        is_problem(await api.client.delete("/api/v1/messages/1"), 404, "not-found")


def _judge_by_rules_and_model() -> None:
    row = Message.objects.get()
    rules = Release.objects.get_or_create(
        kind=ReleaseKind.RULES,
        is_active=True,
        defaults={"model_name": "rules", "model_version": "1"},
    )[0]
    VerdictFactory(message=row)
    VerdictFactory(message=row, release=rules, source=Source.FALLBACK, label=Label.AD)


def _decide_by_person() -> Decision:
    item = ReviewItemFactory(verdict__message=Message.objects.get())
    return Decision.objects.create(
        item=item,
        moderator=UserFactory(role=Role.MODERATOR),
        action=Action.ALLOW,
        label=Label.OK,
    )
