"""What the review page shows: the queue, and everything that a decision may need beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from apps.accounts.models import User
from apps.chat.models import Message
from apps.policies.models import Action, Label
from apps.review.conversation import (
    Conversation,
    SeenMessage,
    around,
    around_and_history,
    conversation_of,
)
from apps.review.keys import merged
from apps.review.models import (
    Appeal,
    AppealState,
    Cause,
    CheckAnswer,
    Decision,
    KeyMap,
    Report,
    ReviewItem,
    ReviewState,
    Skip,
)
from apps.review.ranking import level
from apps.review.sender_facts import SenderFacts, sender_facts
from apps.review.statements import fetch_rows
from apps.review.wave_facts import WaveCard, wave_card
from apps.scoring.models import Verdict

REPORTS_SHOWN = 5
HISTORY_PAGE = 50


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One label's score beside its limits; `outcome` is what they ask for."""

    label: Label
    score: float
    hold: float | None
    remove: float | None
    outcome: Action | None


@dataclass(frozen=True, slots=True)
class Card:
    """One item with the evidence.

    `decision` is the one that stands, if nobody has to decide any more; the one that is appealed is
    in `appeal`.
    """

    item: ReviewItem
    message: Message
    verdict: Verdict | None
    scores: Sequence[ScoreLine]
    suggestion: Action | None
    level: int
    context: Sequence[SeenMessage]
    history: Sequence[SeenMessage]
    earlier: Sequence[Message]
    reports: Sequence[Report]
    appeal: Appeal | None
    sender: SenderFacts
    decision: Decision | None
    holder: User | None
    wave: WaveCard | None


def card(user: User, item_id: int, *, now: datetime | None = None) -> Card:
    """Everything about one item that `user` may see, in a fixed number of queries.

    Raises:
        ReviewItem.DoesNotExist: There is no such item.
    """
    now = now or timezone.now()
    found = ReviewItem.objects.select_related("message__sender", "group", "leased_by")
    item = found.defer("grams").get(pk=item_id)
    message = item.message
    verdict = (
        Verdict.objects.filter(message_id=item_id)
        .select_related("release", "policy_version__policy")
        .order_by("created_at")
        .last()
    )
    said, history = around_and_history(message)
    is_held = item.lease_until is not None and item.lease_until > now
    return Card(
        item=item,
        message=message,
        verdict=verdict,
        scores=_score_lines(verdict),
        suggestion=suggestion(item, verdict),
        level=level(item.rank, now),
        context=said,
        history=history,
        earlier=_earlier_revisions(message),
        reports=_reports(message),
        appeal=_open_appeal(item),
        sender=sender_facts(message, now),
        decision=_standing(item),
        holder=item.leased_by if is_held else None,
        wave=wave_card(user, item, now=now) if item.state == ReviewState.OPEN else None,
    )


def conversation(item_id: int, each: int) -> Conversation:
    """What was said around an item's message, `each` messages before and after.

    Raises:
        ReviewItem.DoesNotExist: There is no such item.
    """
    item = ReviewItem.objects.select_related("message").defer("grams").get(pk=item_id)
    return conversation_of(around(item.message, each), each)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A text and the label that it is held for; None when there is nothing to explain."""

    text: str
    label: Label | None


def evidence(item_id: int) -> Evidence:
    """What an explanation of an item's verdict needs.

    Raises:
        ReviewItem.DoesNotExist: There is no such item.
    """
    item = ReviewItem.objects.select_related("message").get(pk=item_id)
    verdict = Verdict.objects.filter(message_id=item_id).order_by("created_at").last()
    # An appealed item's label is what somebody decided, which is no reason of the model's.
    asked = None if item.cause == Cause.APPEALED else item.label
    given = (verdict.acting_label or verdict.label) if verdict else None
    harm = next((label for label in (given, asked) if label not in (None, Label.OK)), None)
    return Evidence(item.message.text, Label(harm) if harm else _likeliest_harm(verdict))


def _likeliest_harm(verdict: Verdict | None) -> Label | None:
    if verdict is None or verdict.score_ok is None:
        return None
    return max(list(Label)[1:], key=lambda label: getattr(verdict, f"score_{label}"))


def _score_lines(verdict: Verdict | None) -> list[ScoreLine]:
    """By score, highest first; empty when nothing gave scores."""
    if verdict is None or verdict.score_ok is None:
        return []
    limits = _limits(verdict.policy_version_id)
    lines = [_score_line(label, getattr(verdict, f"score_{label}"), limits) for label in Label]
    return sorted(lines, key=lambda line: -line.score)


def _limits(policy_version_id: int) -> dict[str, tuple[float, float]]:
    """By label from which score on the policy holds and removes."""
    sql = "SELECT label, hold, remove FROM policies_threshold WHERE version_id = %(version)s"
    found = fetch_rows(sql, {"version": policy_version_id})
    return {label: (hold, remove) for label, hold, remove in found}


def _score_line(label: Label, score: float, limits: dict[str, tuple[float, float]]) -> ScoreLine:
    if label not in limits:
        return ScoreLine(label, score, None, None, None)
    hold, remove = limits[label]
    outcome = Action.REMOVE if score >= remove else Action.HOLD
    return ScoreLine(label, score, hold, remove, outcome if score >= hold else None)


def suggestion(item: ReviewItem, verdict: Verdict | None) -> Action | None:
    """What is likeliest right: never a choice made for anybody, only a lighter key."""
    if verdict is None or item.cause != Cause.FLAGGED:
        return None
    return Action.ALLOW if verdict.label == Label.OK else Action.REMOVE


def _earlier_revisions(message: Message) -> list[Message]:
    if message.revision == 1:
        return []
    return list(
        Message.objects.filter(
            group_id=message.group_id,
            external_id=message.external_id,
            revision__lt=message.revision,
        ).order_by("-revision")
    )


def _standing(item: ReviewItem) -> Decision | None:
    if item.state != ReviewState.DECIDED:
        return None
    return item.decisions.filter(undone_at__isnull=True).select_related("moderator").first()


def _open_appeal(item: ReviewItem) -> Appeal | None:
    if item.cause != Cause.APPEALED:
        return None
    found = Appeal.objects.filter(item=item, state=AppealState.OPEN)
    return found.select_related("decision__moderator", "entered_by").first()


_REPORTS = f"""
SELECT report.id, report.reason, report.note, report.reported_at, report.reporter,
  sender.name AS reporter_name
FROM chat_message AS message
JOIN review_report AS report ON report.message_id = message.id
LEFT JOIN chat_sender AS sender ON sender.external_id = report.reporter
WHERE message.group_id = %(group)s AND message.external_id = %(external_id)s
ORDER BY report.id DESC LIMIT {REPORTS_SHOWN}
"""  # noqa: S608 (a constant of ours)


def _reports(message: Message) -> list[Report]:
    """The newest reports of the message in any revision, with the name of who reported."""
    key = {"group": message.group_id, "external_id": message.external_id}
    return list(Report.objects.raw(_REPORTS, key))


def latest_undoable(user: User, *, since: datetime) -> Decision | CheckAnswer | None:
    """The user's newest standing decision made after `since`: what U takes back."""
    made: list[Decision | CheckAnswer | None] = [_latest(user, since)]
    made.append(
        CheckAnswer.objects.filter(moderator=user, undone_at__isnull=True, decided_at__gt=since)
        .order_by("-pk")
        .first()
    )
    return max((one for one in made if one), key=lambda one: one.pk, default=None)


def _latest(user: User, since: datetime) -> Decision | None:
    return (
        Decision.objects.filter(
            moderator=user,
            undone_at__isnull=True,
            decided_at__gt=since,
            is_joined=False,
            reverses__isnull=True,
            result_of_appeal__isnull=True,
        )
        .order_by("-pk")
        .first()
    )


def decided_count(user: User, *, since: datetime) -> int:
    """How many standing decisions the user made after `since`."""
    made = {"moderator": user, "undone_at__isnull": True, "decided_at__gte": since}
    answers = CheckAnswer.objects.filter(**made).count()
    return Decision.objects.filter(**made).count() + answers


def keys_of(user: User) -> dict[str, str]:
    """The user's key of every command."""
    own = KeyMap.objects.filter(person=user).values_list("keys", flat=True).first()
    return merged(own or {})


def skipped_count(user: User, *, now: datetime) -> int:
    """How many open items stay away from the user because they skipped them."""
    return Skip.objects.filter(moderator=user, until__gt=now, item__state=ReviewState.OPEN).count()


@dataclass(frozen=True, slots=True)
class PastDecision:
    """A decision in somebody's history. `can_undo` within the grace time, reversed afterwards.

    The answer to a blind check is told as that once it can't be taken back any more. What closed an
    appeal is never taken back: somebody was given its reason.
    """

    decision: Decision | CheckAnswer
    message: Message
    is_standing: bool
    can_undo: bool
    is_check: bool
    closes_appeal: bool
    replaced_by: Decision | None


def past_decisions(
    moderator: User | None, *, before_id: int | None, grace: timedelta, now: datetime | None = None
) -> list[PastDecision]:
    """The newest decisions of one person (or of all), one more than a page of HISTORY_PAGE."""
    now = now or timezone.now()
    found = Decision.objects.select_related(
        "item__message__group",
        "moderator",
        "reversed_by__moderator",
        "joint",
        "result_of_appeal",
    ).order_by("-pk")
    if moderator is not None:
        found = found.filter(moderator=moderator)
    if before_id is not None:
        found = found.filter(pk__lt=before_id)
    made: list[Decision | CheckAnswer] = list(found[: HISTORY_PAGE + 1])
    if moderator is not None:
        made += _past_answers(moderator, before_id)
    newest = sorted(made, key=lambda one: -one.pk)[: HISTORY_PAGE + 1]
    return [_past(decision, now - grace) for decision in newest]


def _past_answers(moderator: User, before_id: int | None) -> list[CheckAnswer]:
    """Answers to blind checks are a moderator's decisions like others; their ids are of one row."""
    given = CheckAnswer.objects.filter(moderator=moderator).select_related(
        "item__message__group", "moderator"
    )
    if before_id is not None:
        given = given.filter(pk__lt=before_id)
    return list(given.order_by("-pk")[: HISTORY_PAGE + 1])


def _past(decision: Decision | CheckAnswer, undoable_since: datetime) -> PastDecision:
    is_standing = decision.undone_at is None
    is_first = getattr(decision, "reverses_id", None) is None
    closes_appeal = getattr(decision, "result_of_appeal", None) is not None
    # What joined later is taken back with those it joined, or not at all.
    joint = getattr(decision, "joint", None)
    made_at = joint.decided_at if joint else decision.decided_at
    return PastDecision(
        decision=decision,
        message=decision.item.message,
        is_standing=is_standing,
        is_check=isinstance(decision, CheckAnswer),
        closes_appeal=closes_appeal,
        can_undo=is_standing and is_first and not closes_appeal and made_at > undoable_since,
        replaced_by=getattr(decision, "reversed_by", None),
    )
