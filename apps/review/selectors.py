"""What the review page shows: the queue, and everything that a decision may need beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Left
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.chat.models import NEWEST_OF_SENDER, Group, Message, Sender
from apps.policies.models import Action, Label, Threshold
from apps.review.keys import merged
from apps.review.models import (
    Appeal,
    AppealState,
    Cause,
    CheckAnswer,
    Decision,
    KeyMap,
    QueueFlow,
    QueueTally,
    Report,
    ReviewItem,
    ReviewState,
    SavedView,
    Skip,
    Strike,
)
from apps.review.queue import QueueFilters, in_order, waiting
from apps.review.ranking import level
from apps.review.trust import LAST_MESSAGES, Fate, Trust, trust_of
from apps.review.wave_facts import WaveCard, WaveFacts, facts_of, one_a_wave, wave_card
from apps.scoring.models import Verdict

QUEUE_ROWS = 50
ROW_CHARS = 160
# Counting further would cost more than the number tells; the page says "1,000+".
FOUND_MOST = 1000
# The groups with the most open items are offered as a filter; others are reached by the address.
GROUPS_LISTED = 100
PACE_MINUTES = 10
CONTEXT_EACH_SIDE, CONTEXT_MOST = 5, 45
HISTORY_ROWS = 8
# Enough to tell a newcomer from a regular; counting on would cost what nobody reads.
SENDER_COUNT_MOST = 300
REMOVED_DAYS = 30
REPORTS_SHOWN = 5
HISTORY_PAGE = 50


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One line of the queue: an item, or the first of a wave. `holder` has it open now."""

    item: ReviewItem
    text: str
    level: int
    holder: User | None
    wave: WaveFacts | None = None


@dataclass(frozen=True, slots=True)
class QueuePage:
    """The first rows and the counts of a part of the queue.

    `by_label[None]` is undetermined. `found` is how many match a search; beyond FOUND_MOST they
    are not counted, and it is one more. Counts are of messages; the rows stand for `shown`.
    """

    rows: Sequence[QueueRow]
    total: int
    leased: int
    oldest: datetime | None
    by_label: dict[str | None, int]
    pace: Pace
    shown: int
    found: int | None = None
    # Of a part by cause, which no count tells; capped likewise.
    of_cause: int | None = None

    @property
    def found_is_capped(self) -> bool:
        return self.found is not None and self.found > FOUND_MOST


@dataclass(frozen=True, slots=True)
class Pace:
    """What came into the whole queue and what was decided a minute, over the last PACE_MINUTES."""

    arrived_per_min: float
    decided_per_min: float


def queue_page(user: User, filters: QueueFilters, *, now: datetime | None = None) -> QueuePage:
    """The queue as `user` sees it, one row a wave, in a handful of queries whatever its size."""
    now = now or timezone.now()
    part = waiting(user, filters)
    rows = _rows(user, part, now)
    by_label = _counts(user, filters)
    leased = part.filter(leased_by__isnull=False, lease_until__gt=now)
    return QueuePage(
        rows=rows,
        total=sum(by_label.values()),
        leased=leased.count(),
        oldest=part.order_by("opened_at").values_list("opened_at", flat=True).first(),
        by_label=by_label,
        pace=_pace(now),
        shown=_shown(part, rows),
        found=part[: FOUND_MOST + 1].count() if filters.text else None,
        of_cause=part[: FOUND_MOST + 1].count() if _is_uncounted(filters) else None,
    )


def _is_uncounted(filters: QueueFilters) -> bool:
    return filters.cause not in (None, Cause.UNDETERMINED) and not filters.text


def _counts(user: User, filters: QueueFilters) -> dict[str | None, int]:
    """Open items by label, over all labels so that the other parts can be seen from any part."""
    tally = _tally(user)
    if filters.group_id is not None:
        tally = tally.filter(group_id=filters.group_id)
    if filters.language is not None:
        tally = tally.filter(language=filters.language)
    counts = dict(tally.values_list("label").annotate(Sum("change")))
    for label, count in _barred(user, filters):
        counts[label] = max(counts.get(label, 0) - count, 0)  # it may be newer than the counts
    return counts


def _barred(user: User, filters: QueueFilters) -> Iterable[tuple[str | None, int]]:
    """Appeals against the user's own decisions: they count for others."""
    barred = ReviewItem.objects.filter(state=ReviewState.OPEN, barred=user)
    if not may(user, Permission.REVIEW_LEAD):
        barred = barred.filter(escalated_by__isnull=True)
    if filters.group_id is not None:
        barred = barred.filter(group_id=filters.group_id)
    if filters.language is not None:
        barred = barred.filter(language=filters.language)
    return barred.values_list("label").annotate(Count("pk"))


def _tally(user: User) -> QuerySet[QueueTally]:
    """What `user` may count."""
    is_lead = may(user, Permission.REVIEW_LEAD)
    return QueueTally.objects.all() if is_lead else QueueTally.objects.filter(is_escalated=False)


def _pace(now: datetime) -> Pace:
    start = now.replace(second=0, microsecond=0) - timedelta(minutes=PACE_MINUTES)
    minutes = (now - start).total_seconds() / 60
    sums = QueueFlow.objects.filter(minute__gte=start).aggregate(Sum("arrived"), Sum("decided"))
    return Pace(
        arrived_per_min=(sums["arrived__sum"] or 0) / minutes,
        decided_per_min=max(sums["decided__sum"] or 0, 0) / minutes,
    )


def _rows(user: User, part: QuerySet[ReviewItem], now: datetime) -> list[QueueRow]:
    items = in_order(
        ReviewItem.objects.filter(pk__in=one_a_wave(part, QUEUE_ROWS))
        .select_related("group", "leased_by")
        .defer("grams")
        .annotate(line=Left("message__text", ROW_CHARS))
    )
    found = list(items)
    waves = facts_of(user, {item.wave_id for item in found if item.wave_id}, now=now)
    elsewhere = User.objects.in_bulk({w.holder_id for w in waves.values() if w.holder_id})
    return [_row(item, waves.get(item.wave_id or 0), elsewhere, now) for item in found]


def _row(
    item: ReviewItem, wave: WaveFacts | None, elsewhere: dict[int, User], now: datetime
) -> QueueRow:
    is_held = item.lease_until is not None and item.lease_until > now
    holder = elsewhere.get(wave.holder_id) if wave and wave.holder_id else None
    return QueueRow(
        item=item,
        text=item.line,  # type: ignore[attr-defined]  # annotated
        level=level(item.rank, now),
        holder=item.leased_by if is_held else holder,
        wave=wave,
    )


def _shown(part: QuerySet[ReviewItem], rows: Sequence[QueueRow]) -> int:
    waves = {row.item.wave_id for row in rows if row.wave}
    alone = len(rows) - len(waves)
    return alone + (part.filter(wave__in=waves).count() if waves else 0)


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One label's score beside its limits; `outcome` is what they ask for."""

    label: Label
    score: float
    hold: float | None
    remove: float | None
    outcome: Action | None


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """A message beside the one that is judged, with what became of it."""

    message: Message
    verdict: Verdict | None
    decision: Decision | None
    is_judged: bool = False


@dataclass(frozen=True, slots=True)
class SenderFacts:
    """About the newest SENDER_COUNT_MOST messages; `removed` is by people, in REMOVED_DAYS.

    Trust and strikes leave the message out that is judged.
    """

    messages: int
    groups: int
    removed: int
    waiting: int
    trust: Trust
    strikes: Sequence[Strike]

    @property
    def is_capped(self) -> bool:
        return self.messages == SENDER_COUNT_MOST


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
    item = ReviewItem.objects.select_related(
        "message__sender", "message__group", "leased_by", "escalated_by"
    ).get(pk=item_id)
    message = item.message
    verdict = (
        Verdict.objects.filter(message_id=item_id)
        .select_related("release", "policy_version__policy")
        .order_by("created_at")
        .last()
    )
    around, history = _around(message), _history(message)
    fates = _fates([*around, *history])
    is_held = item.lease_until is not None and item.lease_until > now
    return Card(
        item=item,
        message=message,
        verdict=verdict,
        scores=_score_lines(verdict),
        suggestion=suggestion(item, verdict),
        level=level(item.rank, now),
        context=[_seen(m, fates, message) for m in around],
        history=[_seen(m, fates, message) for m in history],
        earlier=_earlier_revisions(message),
        reports=_reports(message),
        appeal=_open_appeal(item),
        sender=_sender_facts(message, now),
        decision=_standing(item),
        holder=item.leased_by if is_held else None,
        wave=wave_card(user, item, now=now) if item.state == ReviewState.OPEN else None,
    )


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages around one, in order; `next_each` asks for more of them, if there may be more."""

    rows: Sequence[SeenMessage]
    next_each: int | None


def conversation(item_id: int, each: int) -> Conversation:
    """What was said around an item's message, `each` messages before and after.

    Raises:
        ReviewItem.DoesNotExist: There is no such item.
    """
    item = ReviewItem.objects.select_related("message__sender", "message__group").get(pk=item_id)
    around = _around(item.message, each)
    fates = _fates(around)
    return conversation_of([_seen(m, fates, item.message) for m in around], each)


def conversation_of(rows: Sequence[SeenMessage], each: int = CONTEXT_EACH_SIDE) -> Conversation:
    """The rows, and how far to ask next: a side that is full may go on."""
    before = next(at for at, row in enumerate(rows) if row.is_judged)
    is_full = each in (before, len(rows) - 1 - before)
    goes_on = is_full and each < CONTEXT_MOST
    return Conversation(rows, min(each * 3, CONTEXT_MOST) if goes_on else None)


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
    limits = {t.label: t for t in Threshold.objects.filter(version=verdict.policy_version_id)}
    lines = [_score_line(label, getattr(verdict, f"score_{label}"), limits) for label in Label]
    return sorted(lines, key=lambda line: -line.score)


def _score_line(label: Label, score: float, limits: dict[str, Threshold]) -> ScoreLine:
    limit = limits.get(label)
    if limit is None:
        return ScoreLine(label, score, None, None, None)
    outcome = Action.REMOVE if score >= limit.remove else Action.HOLD
    return ScoreLine(
        label, score, limit.hold, limit.remove, outcome if score >= limit.hold else None
    )


def suggestion(item: ReviewItem, verdict: Verdict | None) -> Action | None:
    """What is likeliest right: never a choice made for anybody, only a lighter key."""
    if verdict is None or item.cause != Cause.FLAGGED:
        return None
    return Action.ALLOW if verdict.label == Label.OK else Action.REMOVE


def _around(message: Message, each: int = CONTEXT_EACH_SIDE) -> list[Message]:
    """The conversation: a few messages before, this one, a few after. Newest revisions only."""
    nearby = _newest(Message.objects.filter(group_id=message.group_id)).exclude(
        external_id=message.external_id
    )
    nearby = nearby.select_related("sender")
    before = list(nearby.filter(pk__lt=message.pk).order_by("-pk")[:each])
    after = list(nearby.filter(pk__gt=message.pk).order_by("pk")[:each])
    return [*reversed(before), message, *after]


def _history(message: Message) -> list[Message]:
    """The sender's last messages before and besides this one, in any group."""
    theirs = _newest(Message.objects.filter(sender_id=message.sender_id))
    others = theirs.exclude(group_id=message.group_id, external_id=message.external_id)
    return list(others.select_related("group").order_by(*NEWEST_OF_SENDER)[:HISTORY_ROWS])


def _newest(messages: QuerySet[Message]) -> QuerySet[Message]:
    newer = Message.objects.filter(
        group_id=OuterRef("group_id"),
        external_id=OuterRef("external_id"),
        revision__gt=OuterRef("revision"),
    )
    return messages.exclude(Exists(newer))


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
    standing = item.decisions.filter(undone_at__isnull=True).select_related("moderator").first()
    return standing if item.state == ReviewState.DECIDED else None


def _open_appeal(item: ReviewItem) -> Appeal | None:
    if item.cause != Cause.APPEALED:
        return None
    found = Appeal.objects.filter(item=item, state=AppealState.OPEN)
    return found.select_related("decision__moderator", "entered_by").first()


def _reports(message: Message) -> list[Report]:
    """The newest reports of the message in any revision, with the name of who reported."""
    name = Sender.objects.filter(external_id=OuterRef("reporter")).values("name")
    found = Report.objects.filter(
        message__group_id=message.group_id, message__external_id=message.external_id
    )
    return list(found.annotate(reporter_name=Subquery(name)).order_by("-pk")[:REPORTS_SHOWN])


_Fates = tuple[dict[int, Verdict], dict[int, Decision]]


def _fates(messages: Iterable[Message]) -> _Fates:
    """The newest verdict and the standing decision of each."""
    ids = {message.pk for message in messages}
    verdicts = Verdict.objects.filter(message_id__in=ids).order_by("created_at")
    decisions = Decision.objects.filter(item__in=ids, undone_at__isnull=True)
    return (
        {verdict.message_id: verdict for verdict in verdicts},
        {decision.item_id: decision for decision in decisions.select_related("moderator")},
    )


def _seen(message: Message, fates: _Fates, judged: Message) -> SeenMessage:
    verdicts, decisions = fates
    return SeenMessage(
        message,
        verdicts.get(message.pk),
        decisions.get(message.pk),
        is_judged=message.pk == judged.pk,
    )


def _sender_facts(message: Message, now: datetime) -> SenderFacts:
    newest = Message.objects.filter(sender_id=message.sender_id).order_by(*NEWEST_OF_SENDER)
    sent = dict(newest.values_list("pk", "group_id")[:SENDER_COUNT_MOST])
    removed = Decision.objects.filter(
        item__in=sent,
        action=Action.REMOVE,
        undone_at__isnull=True,
        decided_at__gt=now - timedelta(days=REMOVED_DAYS),
    )
    counting = strikes_of(message.sender_id, now=now).exclude(decision__item_id=message.pk)
    strikes = list(counting.select_related("moderator", "decision"))
    others = ReviewItem.objects.filter(pk__in=sent, state=ReviewState.OPEN).exclude(pk=message.pk)
    return SenderFacts(
        messages=len(sent),
        groups=len(set(sent.values())),
        removed=removed.count(),
        waiting=others.count(),
        trust=trust_of(_standing_fates([pk for pk in sent if pk != message.pk]), len(strikes)),
        strikes=strikes,
    )


def strikes_of(sender_id: int, *, now: datetime) -> QuerySet[Strike]:
    """A sender's strikes that count, the newest first."""
    counting = Strike.objects.filter(
        sender_id=sender_id,
        withdrawn_at__isnull=True,
        expires_at__gt=now,
        decision__undone_at__isnull=True,
    )
    return counting.order_by("-given_at")


def _standing_fates(newest_ids: Sequence[int]) -> list[Fate]:
    """What stands for each of the newest: a person's decision, else the newest verdict."""
    ids = newest_ids[:LAST_MESSAGES]
    verdicts = Verdict.objects.filter(message_id__in=ids).order_by("created_at")
    decided = Decision.objects.filter(item__in=ids, undone_at__isnull=True)
    fates = {pk: Fate(Action(a), False) for pk, a in verdicts.values_list("message_id", "action")}
    fates |= {pk: Fate(Action(a), True) for pk, a in decided.values_list("item_id", "action")}
    return list(fates.values())


def groups_with_work(user: User, chosen: int | None) -> list[tuple[int, str]]:
    """Id and name of the GROUPS_LISTED groups with most open items, and the chosen one, by name.

    From the counts, not from the items: a look at each group's items took eight milliseconds.
    """
    busiest = (
        _tally(user)
        .values("group_id")
        .annotate(waiting=Sum("change"))
        .filter(waiting__gt=0)
        .order_by("-waiting")[:GROUPS_LISTED]
    )
    wanted = Q(pk__in=busiest.values("group_id")) | Q(pk=chosen)
    found = Group.objects.filter(wanted).values_list("pk", "name", "external_id")
    return sorted(((pk, name or external_id) for pk, name, external_id in found), key=_by_name)


def _by_name(group: tuple[int, str]) -> tuple[str, int]:
    return group[1].casefold(), group[0]


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
            moderator=user, undone_at__isnull=True, decided_at__gt=since, is_joined=False
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


def saved_views(user: User) -> QuerySet[SavedView]:
    """The user's parts of the queue, by name."""
    return SavedView.objects.filter(person=user).order_by("name")


def skipped_count(user: User, *, now: datetime) -> int:
    """How many open items stay away from the user because they skipped them."""
    return Skip.objects.filter(moderator=user, until__gt=now, item__state=ReviewState.OPEN).count()


@dataclass(frozen=True, slots=True)
class PastDecision:
    """A decision in somebody's history. `can_undo` within the grace time, reversed afterwards.

    The answer to a blind check is told as that once it can't be taken back any more.
    """

    decision: Decision | CheckAnswer
    message: Message
    is_standing: bool
    can_undo: bool
    is_check: bool
    replaced_by: Decision | None


def past_decisions(
    moderator: User | None, *, before_id: int | None, grace: timedelta, now: datetime | None = None
) -> list[PastDecision]:
    """The newest decisions of one person (or of all), one more than a page of HISTORY_PAGE."""
    now = now or timezone.now()
    found = Decision.objects.select_related(
        "item__message__group", "moderator", "reversed_by__moderator", "joint"
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
    # What joined later is taken back with those it joined, or not at all.
    joint = getattr(decision, "joint", None)
    made_at = joint.decided_at if joint else decision.decided_at
    return PastDecision(
        decision=decision,
        message=decision.item.message,
        is_standing=is_standing,
        is_check=isinstance(decision, CheckAnswer),
        can_undo=is_standing and is_first and made_at > undoable_since,
        replaced_by=getattr(decision, "reversed_by", None),
    )
