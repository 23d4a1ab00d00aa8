"""Appeals, second reviews, known answers and a wave for the small installation of `demo.py`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from apps.accounts.models import User
from apps.audit.services import Actor
from apps.chat.models import Group, Sender
from apps.policies.models import Action, Label
from apps.review.models import (
    Check,
    CheckAnswer,
    CheckKind,
    CheckOutcome,
    CheckSettings,
    Decision,
    Gold,
    ReviewState,
)
from apps.review.services.appeals import decide_appeal, open_appeal
from apps.review.services.decisions import Choice
from apps.review.services.leases import open_item
from apps.review.services.subjects import Subject
from apps.review.services.waves import assign
from tests.factories import (
    GroupFactory,
    MessageFactory,
    ReviewItemFactory,
    SenderFactory,
    VerdictFactory,
)

WAVE_ID = 6_000_000
WAVE_SIZE, WAVE_GROUPS = 143, 12
OPEN_APPEALS = 3
# An answer is told among the decisions that were made about that time.
LATER_IDS = 1
_NAMES = ("Lucy", "Mary", "Anna", "Jane", "Rose", "Ruby", "小丽", "Vera")
_OFFER = (
    "Hello, I am {name}. I made {n} dollars with this group last week, write me at tgm.example/{n}"
)
_APPEALS = (
    "It was a joke between friends, please look again.",
    "这是我们小区自己的团购，不是广告",
    "I only asked for the price!",
    "账号被盗了，不是我发的",
    "Why was this removed? No bad words in it.",
)
_UPHELD = (
    "It leads to a copied sign-in page.",
    "链接仍然有害，保持删除。",
    "The same text went to a dozen groups.",
    "是广告：发到了十几个群。",
)
_OVERTURNED = ("Harmless among these people.", "群主确认过，可以发。", "A question, nothing more.")
# Which known answer whom escaped.
_MISSED = {(1, 0), (4, 2), (6, 2)}
_OLDER_THAN_GRACE = timedelta(minutes=5)


def appeal(moderators: Sequence[User], now: datetime) -> None:
    """Appeals against removals of two weeks: most decided by the other moderator, some wait."""
    removals = Decision.objects.filter(action=Action.REMOVE, undone_at=None, reverses=None)
    oldest_first = list(removals.order_by("-pk")[:60:3])[::-1]
    for number, decision in enumerate(oldest_first):
        left = len(oldest_first) - number
        is_open = left <= OPEN_APPEALS
        opened_at = now - (timedelta(seconds=50 * left) if is_open else timedelta(hours=5 * left))
        open_appeal(
            Subject(message_id=decision.item_id),
            appellant=f"u-{700 + number}",
            text=_APPEALS[number % len(_APPEALS)],
            actor=Actor.system("demo"),
            now=opened_at,
        )
        if not is_open:
            other = next(one for one in moderators if one.pk != decision.moderator_id)
            _decide_appeal(other, decision, number, opened_at)


def _decide_appeal(moderator: User, decision: Decision, number: int, opened_at: datetime) -> None:
    decided_at = opened_at + timedelta(minutes=4)
    lease = open_item(moderator, decision.item_id, now=decided_at)
    choice = Choice(Action.REMOVE, Label(decision.label), _UPHELD[number % len(_UPHELD)])
    if number % 4 == 2:
        choice = Choice(Action.ALLOW, Label.OK, _OVERTURNED[number % len(_OVERTURNED)])
    decide_appeal(
        moderator,
        lease.item_id,
        token=lease.token,
        version=lease.version,
        choice=choice,
        now=decided_at,
    )


def check(people: Sequence[User], lead: User, now: datetime, chance: random.Random) -> None:
    """Second reviews by everybody of everybody, a few of them in dispute, and known answers."""
    CheckSettings.objects.create(pk=1, second_share=0.1, gold_share=0.02)
    standing = list(
        Decision.objects.filter(
            undone_at=None, reverses=None, item__state=ReviewState.DECIDED
        ).order_by("-pk")
    )
    disputes = 0
    for number, decision in enumerate(standing[5:125]):
        seconds = [one for one in people if one.pk != decision.moderator_id]
        agrees = chance.random() < 0.9
        answer = (decision.action, decision.label) if agrees else _otherwise(decision)
        settled = disputes >= 2 if not agrees else False
        disputes += not agrees
        made = Check.objects.create(
            kind=CheckKind.SECOND,
            item_id=decision.item_id,
            first=decision,
            moderator=seconds[number % len(seconds)],
            due_at=decision.decided_at,
            outcome=_outcome(agrees, settled),
            settled_by=lead if settled else None,
            settled_at=decision.decided_at + timedelta(hours=9) if settled else None,
        )
        later = decision.decided_at + timedelta(hours=3)
        _answer(made, decision.pk + LATER_IDS, answer, min(later, now - _OLDER_THAN_GRACE))
    for number, decision in enumerate(standing[130:190:8]):
        _known(decision, number, people, lead, now)


def _outcome(agrees: bool, settled: bool) -> CheckOutcome:
    if agrees:
        return CheckOutcome.AGREED
    return CheckOutcome.SETTLED if settled else CheckOutcome.DISAGREED


def _otherwise(decision: Decision) -> tuple[str, str]:
    if decision.action == Action.REMOVE:
        return Action.ALLOW, Label.OK
    return Action.REMOVE, decision.item.label or Label.SPAM


def _answer(made: Check, id_: int, answer: tuple[str, str], at: datetime) -> None:
    action, label = answer
    CheckAnswer.objects.create(
        id=id_,
        subject=made,
        item_id=made.item_id,
        moderator_id=made.moderator_id,
        action=action,
        label=label,
        lease_token=uuid4(),
        decided_at=at,
    )


def _known(
    decision: Decision,
    number: int,
    people: Sequence[User],
    lead: User,
    now: datetime,
) -> None:
    gold = Gold.objects.create(
        item_id=decision.item_id, action=decision.action, label=decision.label, made_by=lead
    )
    for place, person in enumerate(people):
        is_right = (number, place) not in _MISSED
        made = Check.objects.create(
            kind=CheckKind.GOLD,
            item_id=gold.item_id,
            gold=gold,
            moderator=person,
            due_at=now,
            outcome=CheckOutcome.AGREED if is_right else CheckOutcome.DISAGREED,
        )
        answer = (gold.action, gold.label) if is_right else _otherwise(decision)
        at = now - timedelta(days=number + 1, minutes=place)
        _answer(made, -(number * 10 + place), answer, at)


def wave(now: datetime, chance: random.Random) -> None:
    """One offer in many words, in many groups; its first member has the id WAVE_ID."""
    sender = SenderFactory(external_id="s-new", name="Lucy")
    groups: list[Group] = [
        GroupFactory(external_id=f"w{n}", name=f"Market {n + 1}") for n in range(WAVE_GROUPS)
    ]
    texts = {
        WAVE_ID + n: _OFFER.format(name=_NAMES[n % len(_NAMES)], n=1_000 + n * 7)
        for n in range(WAVE_SIZE)
    }
    waves = assign(texts)
    for number, (id_, text) in enumerate(texts.items()):
        at = now - timedelta(seconds=170 - number)
        message = MessageFactory(
            id=id_,
            group=groups[number % WAVE_GROUPS],
            sender=sender,
            external_id=f"wave-{number}",
            text=text,
            received_at=at,
        )
        score = min(max(chance.gauss(0.82, 0.03), 0.7), 0.89)
        verdict = VerdictFactory(message=message, created_at=at, score_ok=0.08, score_spam=score)
        ReviewItemFactory(
            verdict=verdict, opened_at=at, priority=0.65, score=score, wave_id=waves.get(id_)
        )


def scored(
    texts: Sequence[tuple[str, Label, float]],
    senders: Sequence[Sender],
    now: datetime,
    chance: random.Random,
) -> None:
    """Doubtful messages at the end of the queue, for the chart by score."""
    group = GroupFactory(external_id="g-quiet", name="Quiet Corner")
    for number in range(160):
        text, label, _ = texts[number % len(texts)]
        score = min(max(chance.gauss(0.72, 0.09), 0.5), 0.9)
        at = now - timedelta(seconds=5 + number / 4)
        message = MessageFactory(
            id=6_500_000 + number,
            group=group,
            sender=senders[number % len(senders)],
            external_id=f"quiet-{number}",
            text=text,
            received_at=at,
        )
        scores = dict.fromkeys(("score_ok", "score_spam", "score_toxic", "score_ad"), 0.05)
        verdict = VerdictFactory(
            message=message, created_at=at, label=label, acting_label=label,
            **{**scores, f"score_{label}": score},
        )  # fmt: skip
        ReviewItemFactory(
            verdict=verdict, label=label, opened_at=at, priority=score * 0.2, score=score
        )
