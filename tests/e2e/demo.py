"""A small installation in the middle of a shift, for screenshots: the same at every run.

Believable talk in English and Chinese, and among it what people do to break a console.
"""

from __future__ import annotations

import base64
import math
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from apps.accounts.models import Role, User
from apps.chat.models import Chunk, Message
from apps.console.keys import create_key, revoke_key
from apps.dashboard.models import InflowSample
from apps.policies.judging import Limits
from apps.policies.models import Label
from apps.policies.services import publish_version
from apps.review.models import Decision, ReviewItem, ReviewState
from apps.scoring.models import Source, StageSample, Verdict
from apps.scoring.samples import Counters, Gauges, Sample
from inference.stats import LatencySketch
from tests.e2e import demo_checks
from tests.factories import (
    GroupFactory,
    MessageFactory,
    ReviewItemFactory,
    SenderFactory,
    UserFactory,
    VerdictFactory,
    default_policy_version,
)

# Samples reach into the future, so that nothing looks dead while pictures are taken.
AHEAD_S = 600
GROUPS = (
    "Harbour Trading",
    "周末羽毛球群",
    "Film Club",
    "妈妈互助群",
    "Raid Night EU",
    "小区业主群",
    "\u202eredrO esreveR\u202c",
    "Synth Makers",
)
SENDERS = ("tin_whistle", "老王修车", "quiet_otter", "harbor_lamp_88", "", "=cmd|' /C calc'!A0")
CALM = (
    "anyone know if the Saturday ferry runs in fog?",
    "有雾一般会停，早上看公告",
    "The third act lost me, lovely score though",
    "周六老地方，三点开打",
    "Is the blue bike still available?",
    "电梯今天下午检修",
    "patch notes for 2.4, long post in the thread",
    "团购接龙：苹果 12 箱，周五自提",
    "see you at the usual place, bring the thing",
    "👩‍👩‍👧‍👦 we made it 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "می‌خواهم فردا بیایم",
    "孩子今天退烧了，谢谢大家关心",
)
ALLOWED = {"action": "allow", "label": Label.OK}
# Text, likeliest label, score.
BAD: tuple[tuple[str, Label | None, float], ...] = (
    ("Fr\u0435\u0435 c\u043eins f\u043er everyone, join t\u200bgm.example/drop", Label.SPAM, 0.97),
    ("代购正品包邮，今晚截单，私聊报价", Label.AD, 0.81),
    ("You lot are clueless, go play something else", Label.TOXIC, 0.74),
    ("兼职日结，在家可做，加-薇-芯领资料", Label.SPAM, 0.93),
    ("\u202epord/elpmaxe.mgt nioj\u202c before midnight", Label.SPAM, 0.88),
    (
        "p\u0323\u0306\u0331\u0302\u0303l\u0327\u030ce\u0303\u0302\u0331\u0306\u0304a r\u030bead",
        None,
        0.0,
    ),
    ("Best sneakers, 70% off, link in my profile", Label.AD, 0.78),
    ("这都不会？别拖大家后腿了，废物", Label.TOXIC, 0.83),
    ("<script>alert('hello')</script>", Label.SPAM, 0.61),
    ("W" * 900, None, 0.0),
    ("Check the new airdrop list, link below", Label.SPAM, 0.69),
    ("fr33 m0n3y \u2062f\u2063o\u2064r all of you", Label.SPAM, 0.95),
)


def fill(now: datetime) -> dict[Role, User]:
    """Everything that the pages show; returns a person of each role."""
    chance = random.Random(7)
    people = {
        Role.MODERATOR: UserFactory(username="mira.k", role=Role.MODERATOR),
        Role.OPERATOR: UserFactory(username="omar.s", role=Role.OPERATOR),
        Role.ADMIN: UserFactory(username="ada.w", role=Role.ADMIN),
    }
    _govern(people[Role.ADMIN], now)
    _talk(now, chance)
    jun, lena = (UserFactory(username=name, role=Role.MODERATOR) for name in ("jun.w", "lena.h"))
    moderators = [people[Role.MODERATOR], jun]
    _decide(moderators, now, chance)
    # What follows leaves the people and the talk above as they were.
    demo_checks.appeal(moderators, now)
    demo_checks.check([*moderators, lena], people[Role.ADMIN], now, random.Random(8))
    demo_checks.wave(now, random.Random(10))
    flagged = [(text, label, score) for text, label, score in BAD if label is not None]
    senders = [SenderFactory(external_id=f"q{n}", name=f"quiet_{n}") for n in range(40)]
    demo_checks.scored(flagged, senders, now, random.Random(9))
    StageSample.objects.bulk_create(_samples(now, chance), batch_size=500)
    InflowSample.objects.bulk_create(_inflow(now))
    for chunk_id, size in enumerate((412, 380), start=1):
        Chunk.objects.create(id=chunk_id, size=size)
    return people


def _govern(admin: User, now: datetime) -> None:
    """Keys of two backends, one revoked, and a second version of the thresholds."""
    create_key(admin, name="chat backend", expires_at=None)
    create_key(admin, name="import of the old forum", expires_at=now + timedelta(days=30))
    lost, _ = create_key(admin, name="laptop that was lost", expires_at=None)
    revoke_key(admin, lost.pk)
    first = default_policy_version()
    limits = {
        Label.SPAM: Limits(hold=0.55, remove=0.9),
        Label.TOXIC: Limits(hold=0.5, remove=0.92),
        Label.AD: Limits(hold=0.6, remove=0.95),
    }
    note = "Fewer harmless links in the queue"
    publish_version(admin, first.policy_id, limits, note=note, based_on=first.number)


def _talk(now: datetime, chance: random.Random) -> None:
    groups = [GroupFactory(external_id=f"g{n}", name=name) for n, name in enumerate(GROUPS)]
    senders = [SenderFactory(external_id=f"s{n}", name=name) for n, name in enumerate(SENDERS)]
    for number in range(96):
        at = now - timedelta(seconds=(96 - number) * 4.7)
        message = MessageFactory(
            id=5_000_000 + number,
            group=groups[number % len(groups)],
            sender=chance.choice(senders),
            external_id=f"m{number}",
            text="",
            received_at=at,
        )
        if number % 4:
            _judge_calm(message, CALM[number % len(CALM)], at, chance)
        else:
            _judge_bad(message, *BAD[number // 4 % len(BAD)], at)


def _decide(moderators: Sequence[User], now: datetime, chance: random.Random) -> None:
    """Two weeks of decisions, quieter at first, some of them overturned."""
    group, sender = GroupFactory(external_id="g-old", name="Old Forum"), SenderFactory()
    held = [bad for bad in BAD if bad[1] is not None and bad[2] <= 0.9]
    for number in range(260):
        text, label, score = held[number % len(held)]
        opened_at = now - timedelta(days=13.9 * (1 - number / 260) ** 0.7, minutes=30)
        message = MessageFactory(
            id=4_000_000 + number,
            group=group,
            sender=sender,
            external_id=f"old-{number}",
            text=text,
            received_at=opened_at,
        )
        scores = dict.fromkeys(("score_ok", "score_spam", "score_toxic", "score_ad"), 0.04)
        verdict = _verdict(
            message,
            opened_at,
            label=label,
            action="hold",
            acting_label=label,
            **{**scores, f"score_{label}": score},
        )
        waited_s = chance.lognormvariate(4.2, 0.8)
        item = _queue(
            verdict,
            opened_at,
            cause="flagged",
            priority=score,
            state=ReviewState.DECIDED,
            first_leased_at=opened_at + timedelta(seconds=waited_s),
        )
        _decision(item, moderators[number % 2], opened_at, waited_s, chance)


def _decision(
    item: ReviewItem, moderator: User, opened_at: datetime, waited_s: float, chance: random.Random
) -> None:
    is_right = chance.random() < 0.85
    choice = {"action": "remove", "label": item.label} if is_right else ALLOWED
    is_overturned = chance.random() < 0.05
    decided_at = opened_at + timedelta(seconds=waited_s + chance.uniform(1, 9))
    overturned_at = decided_at + timedelta(minutes=20)
    decision = Decision.objects.create(
        item=item,
        moderator=moderator,
        decided_at=decided_at,
        undone_at=overturned_at if is_overturned else None,
        **choice,
    )
    if is_overturned:
        Decision.objects.create(
            item=item, moderator=moderator, decided_at=overturned_at, reverses=decision, **ALLOWED
        )


def _judge_calm(message: Message, text: str, at: datetime, chance: random.Random) -> None:
    _set_text(message, text)
    ok = round(chance.uniform(0.9, 0.99), 2)
    scores = {"score_ok": ok, "score_spam": (1 - ok) / 2, "score_toxic": (1 - ok) / 4}
    _verdict(message, at, label=Label.OK, action="allow", acting_label=None, **scores)


def _judge_bad(
    message: Message, text: str, label: Label | None, score: float, at: datetime
) -> None:
    _set_text(message, text)
    if label is None:
        scores = dict.fromkeys(("score_ok", "score_spam", "score_toxic", "score_ad"))
        verdict = _verdict(
            message,
            at,
            label=None,
            action="hold",
            acting_label=None,
            source=Source.FALLBACK,
            **scores,
        )
        _queue(verdict, at, cause="undetermined", priority=0.4)
        return
    action = "remove" if score > 0.9 else "hold"
    others = {f"score_{each}": (1 - score) / 3 for each in ("ok", "spam", "toxic", "ad")}
    verdict = _verdict(
        message,
        at,
        label=label,
        action=action,
        acting_label=label,
        **{**others, f"score_{label}": score},
    )
    if action == "hold":
        _queue(verdict, at, cause="flagged", priority=score)


def _set_text(message: Message, text: str) -> None:
    Message.objects.filter(pk=message.pk).update(text=text)


def _verdict(message: Message, at: datetime, **changes: Any) -> Verdict:
    return VerdictFactory(message=message, created_at=at, **changes)


def _queue(verdict: Verdict, at: datetime, **changes: Any) -> ReviewItem:
    return ReviewItemFactory(verdict=verdict, label=verdict.label, opened_at=at, **changes)


def _samples(now: datetime, chance: random.Random) -> Iterator[StageSample]:
    """Ten minutes with a slow patch, in which one replica fails and its breaker opens."""
    for second in range(-600, AHEAD_S, 1):
        at = now + timedelta(seconds=second)
        slow = 4.0 if -260 < second < -190 else 1.0
        for process, share in (("worker-7312@node-a", 0.55), ("worker-7319@node-b", 0.45)):
            sample = _sample(at, process, share / (2 if slow > 1 else 1), slow, chance)
            yield StageSample(at=at, process=process, payload=sample.to_json())


def _sample(at: datetime, process: str, share: float, slow: float, chance: random.Random) -> Sample:
    verdicts = int(share * _load(at))
    batches = max(1, verdicts // 60)
    undetermined = int(verdicts * 0.003 * slow)
    ok = int(verdicts * 0.84)
    return Sample(
        at=at,
        process=process,
        role="worker",
        counters=Counters(
            claimed=verdicts,
            verdicts=verdicts,
            by_label={"ok": ok, "spam": verdicts - ok - undetermined, "": undetermined},
            by_action={"allow": ok, "hold": verdicts - ok},
            by_source={"model": verdicts - undetermined, "fallback": undetermined},
            batches=batches,
            batch_sizes={"64": batches, chance.choice(("8", "16", "32", "128")): 1},
        ),
        gauges=Gauges(in_flight_batches=2, in_flight_messages=int(128 * share)),
        sketches=_sketches(verdicts, batches, slow, chance),
        replicas=_replicas(),
    )


def _load(at: datetime) -> float:
    return 960 + 240 * math.sin(at.timestamp() / 90)


def _sketches(verdicts: int, batches: int, slow: float, chance: random.Random) -> dict[str, str]:
    means_ms = {"queue": 4.0, "total": 12.0}
    batch_means_ms = {
        "claim": 1.3,
        "encode": 0.5,
        "network": 0.9,
        "inference": 6.2,
        "store": 2.4,
        "push": 0.3,
    }
    return {
        **{s: _sketch(m * slow, min(verdicts, 60), chance) for s, m in means_ms.items()},
        **{s: _sketch(m * slow, batches, chance) for s, m in batch_means_ms.items()},
    }


def _sketch(mean_ms: float, count: int, chance: random.Random) -> str:
    sketch = LatencySketch()
    sketch.add_many([chance.lognormvariate(math.log(mean_ms), 0.45) for _ in range(count)])
    return base64.b64encode(sketch.to_bytes()).decode()


def _replicas() -> list[dict[str, Any]]:
    calm = {
        "state": "ready",
        "reason": "",
        "breaker": "closed",
        "breaker_reason": "",
        "seconds_to_probe": None,
        "queue_depth": 0,
        "mean_queue_ms": 0.4,
        "version": "2.51.0",
        "models": [[name, True] for name in ("classifier:3", "moderation:1", "tokenizer:1")],
        "server_load": {"cpu_share": 0.42, "memory_share": 0.31},
        "checked_at_s": 1.0,
    }
    failing = {"breaker": "half_open", "breaker_reason": "9 of 12 failed in 10 s"}
    return [
        {
            "name": "triton-1",
            "address": "10.0.0.11:8001",
            "in_flight": 1,
            "latency_ms": 5.8,
            **calm,
        },
        {
            "name": "triton-2",
            "address": "10.0.0.12:8001",
            "in_flight": 2,
            "latency_ms": 6.4,
            **calm,
        },
        {
            "name": "triton-3",
            "address": "10.0.0.13:8001",
            "in_flight": 0,
            "latency_ms": 188.0,
            **calm,
            **failing,
        },
    ]


def _inflow(now: datetime) -> Iterator[InflowSample]:
    for second in range(-600, AHEAD_S):
        at = (now + timedelta(seconds=second)).replace(microsecond=0)
        piled_up = max(0, 70 - abs(second + 190)) if second < -120 else 0
        yield InflowSample(
            second=at,
            received=int(_load(at)),
            high_id=5_000_000,
            waiting=400 + piled_up * 260,
            oldest_age_s=0.5 + piled_up * 0.2,
        )
