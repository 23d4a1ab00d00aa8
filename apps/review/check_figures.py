"""What blind checks say: agreement of people, and how often known answers are hit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q

from apps.accounts.models import User
from apps.policies.models import Label
from apps.review.agreement import cohens_kappa, krippendorffs_alpha
from apps.review.models import Check, CheckAnswer, CheckKind, CheckOutcome, Gold
from apps.review.services.decisions import grace

DAYS = 90
TO_SETTLE_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Look:
    """One decision and its second review: who, and what (`remove:spam`)."""

    first_by: int
    second_by: int
    first: str
    second: str

    @property
    def agrees(self) -> bool:
        return self.first == self.second

    def labels(self) -> tuple[str, str]:
        return self.first.split(":")[1], self.second.split(":")[1]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Shares and kappa or alpha are None where there is nothing to tell."""

    name: str
    label: str
    looks: int
    agreed: float | None
    measure: float | None


@dataclass(frozen=True, slots=True)
class GoldScore:
    name: str
    answered: int
    right: int

    @property
    def accuracy(self) -> float:
        return self.right / self.answered


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two answers to one message; `may_settle` unless the lead gave one of them."""

    check: Check
    answer: CheckAnswer
    may_settle: bool


def looks(*, now: datetime, of: User | None = None) -> list[Look]:
    """All second reviews of DAYS days that can't be taken back any more; or those of one person.

    Each with both answers as they were given, whatever a lead made of it.
    """
    given = CheckAnswer.objects.filter(
        subject__kind=CheckKind.SECOND,
        undone_at__isnull=True,
        decided_at__gt=now - timedelta(days=DAYS),
        decided_at__lte=now - grace(),
    )
    if of is not None:
        given = given.filter(Q(moderator=of) | Q(subject__first__moderator=of))
    rows = given.order_by("pk").values_list(
        "subject__first__moderator",
        "moderator",
        "subject__first__action",
        "subject__first__label",
        "action",
        "label",
    )
    return [Look(a, b, f"{c}:{d}", f"{e}:{f}") for a, b, c, d, e, f in rows]


def overall(found: Sequence[Look], name: str) -> Agreement:
    """Krippendorff's alpha over action and label together."""
    alpha = krippendorffs_alpha((look.first, look.second) for look in found)
    return Agreement(name, "", len(found), _share(found), alpha)


def by_label(found: Sequence[Look]) -> list[Agreement]:
    """For each label, alpha of whether a message is that; over looks in which anybody said so."""
    tables = []
    for label in Label:
        concerned = [look for look in found if label in look.labels()]
        if concerned:
            is_it = [tuple(said == label for said in look.labels()) for look in found]
            alpha = krippendorffs_alpha(is_it)
            same = sum(len(set(look.labels())) == 1 for look in concerned)
            share = same / len(concerned)
            tables.append(Agreement(str(label.label), label, len(concerned), share, alpha))
    return tables


def by_pair(found: Sequence[Look]) -> list[Agreement]:
    """Cohen's kappa of each two people, whoever was first; those with most looks first."""
    pairs: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
    for look in found:
        if look.first_by < look.second_by:
            pairs[look.first_by, look.second_by].append((look.first, look.second))
        else:
            pairs[look.second_by, look.first_by].append((look.second, look.first))
    people = User.objects.in_bulk({person for pair in pairs for person in pair})
    tables = [
        Agreement(
            f"{people[a].get_username()} · {people[b].get_username()}",
            "",
            len(answers),
            sum(one == other for one, other in answers) / len(answers),
            cohens_kappa(answers),
        )
        for (a, b), answers in pairs.items()
    ]
    return sorted(tables, key=lambda table: -table.looks)


def own(found: Sequence[Look], user: User, name: str) -> Agreement:
    """Cohen's kappa of one person with all others together."""
    mine = [
        (look.first, look.second) if look.first_by == user.pk else (look.second, look.first)
        for look in found
        if user.pk in (look.first_by, look.second_by)
    ]
    share = sum(one == other for one, other in mine) / len(mine) if mine else None
    return Agreement(name, "", len(mine), share, cohens_kappa(mine))


def _share(found: Sequence[Look]) -> float | None:
    return sum(look.agrees for look in found) / len(found) if found else None


def gold_scores(*, now: datetime, of: User | None = None) -> list[GoldScore]:
    """How many known answers each person (or one) hit in DAYS days, by name."""
    given = CheckAnswer.objects.filter(
        subject__kind=CheckKind.GOLD,
        undone_at__isnull=True,
        decided_at__gt=now - timedelta(days=DAYS),
        decided_at__lte=now - grace(),
    )
    if of is not None:
        given = given.filter(moderator=of)
    right = Q(subject__outcome=CheckOutcome.AGREED)
    rows = given.values_list("moderator__username").annotate(
        answered=Count("pk"), right=Count("pk", filter=right)
    )
    return [GoldScore(*row) for row in rows.order_by("moderator__username")]


def waiting_count(*, now: datetime) -> int:
    """Second reviews that somebody has still to make."""
    return Check.objects.filter(
        kind=CheckKind.SECOND,
        outcome=CheckOutcome.WAITING,
        due_at__lte=now,
        first__undone_at__isnull=True,
    ).count()


def to_settle(lead: User, *, now: datetime) -> list[Disagreement]:
    """The oldest disagreements that a lead has to decide."""
    answers = (
        CheckAnswer.objects.filter(
            subject__kind=CheckKind.SECOND,
            subject__outcome=CheckOutcome.DISAGREED,
            subject__first__undone_at__isnull=True,
            undone_at__isnull=True,
            decided_at__lte=now - grace(),
        )
        .select_related("subject__first__moderator", "moderator", "item__message__group")
        .order_by("subject_id")[:TO_SETTLE_SHOWN]
    )
    return [_disagreement(answer, lead) for answer in answers]


def _disagreement(answer: CheckAnswer, lead: User) -> Disagreement:
    first = answer.subject.first
    assert first is not None
    involved = (first.moderator_id, answer.moderator_id)
    return Disagreement(answer.subject, answer, lead.pk not in involved)


def gold_items() -> list[Gold]:
    """Items that are served with known answers, the newest first."""
    found = Gold.objects.filter(retired_at__isnull=True).select_related("item__message", "made_by")
    return list(found.order_by("-pk"))
