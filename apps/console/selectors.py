"""What the admins' pages show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery

from apps.audit.models import AuditEvent
from apps.chat.models import Group
from apps.policies.judging import Limits
from apps.policies.models import Label, Policy, PolicyVersion
from apps.policies.services import TUNED, limits_of

# The newest scores that thresholds are shown against: hours to days of a busy site, and counted
# in a few hundredths of a second.
SAMPLE_SCORES = 20_000
# One bar a hundredth, the step of a threshold; the last one is a score of exactly 1.
BARS = 101
HISTORY_VERSIONS = 20
GROUPS_SHOWN = 50
AUDIT_ROWS = 50


def policies() -> Sequence[Policy]:
    """All policies, the default one first, each with `newest` (number) and `group_count`."""
    newest = PolicyVersion.objects.filter(policy=OuterRef("pk")).order_by("-number")
    found = Policy.objects.annotate(
        newest=Subquery(newest.values("number")[:1]), group_count=Count("groups")
    ).order_by("-is_default", "name")
    unassigned = Group.objects.filter(policy__isnull=True).count()
    listed = list(found)
    for policy in listed:
        if policy.is_default:
            policy.group_count += unassigned
    return listed


@dataclass(frozen=True, slots=True)
class Change:
    """What one version changed about one label."""

    label: Label
    before: Limits | None
    after: Limits


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """`listed` is how many entries the version has, `listed_before` its forerunner; both None
    where the lists stayed as they were.
    """

    version: PolicyVersion
    changes: Sequence[Change]
    listed_before: int | None = None
    listed: int | None = None


def history(policy: Policy) -> list[HistoryEntry]:
    """The last versions, newest first, each with what it changed."""
    versions = list(
        policy.versions.select_related("created_by")
        .prefetch_related("thresholds")
        .annotate(listed=Count("rule_list__rules"))
        .order_by("-number")[: HISTORY_VERSIONS + 1]
    )
    entries = [
        HistoryEntry(version, _changes(older, version), *_listed(older, version))
        for version, older in zip(versions, [*versions[1:], None], strict=True)
    ]
    return entries[:HISTORY_VERSIONS]


def _listed(older: Any, version: Any) -> tuple[int | None, int | None]:
    before = older.rule_list_id if older else None
    if before == version.rule_list_id:
        return None, None
    return older.listed if older else 0, version.listed


def _changes(older: PolicyVersion | None, version: PolicyVersion) -> list[Change]:
    after = limits_of(version)
    before = limits_of(older) if older else {}
    return [
        Change(label, before.get(label), after[label])
        for label in TUNED
        if label in after and before.get(label) != after[label]
    ]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many of the newest scores fall on each hundredth; `known` are those people confirmed."""

    scores: Sequence[int]
    known: Sequence[int]

    @property
    def total(self) -> int:
        return sum(self.scores)


# Ids grow with time, so the primary key finds the newest without an index of its own.
_HISTOGRAMS = """
SELECT label, least(floor(score * 100), 100)::int AS bar, count(*),
       count(*) FILTER (WHERE decided = label)
FROM (
  SELECT v.score_spam, v.score_toxic, v.score_ad, d.label AS decided
  FROM (SELECT * FROM scoring_verdict ORDER BY message_id DESC LIMIT %s) v
  LEFT JOIN review_decision d ON d.item_id = v.message_id AND d.undone_at IS NULL
) newest
CROSS JOIN LATERAL (
  VALUES ('spam', score_spam), ('toxic', score_toxic), ('ad', score_ad)
) AS each (label, score)
WHERE score IS NOT NULL
GROUP BY 1, 2
"""


def histograms() -> dict[Label, Histogram]:
    """The newest stored scores of each label that has thresholds, over all groups."""
    scores = {label: [0] * BARS for label in TUNED}
    known = {label: [0] * BARS for label in TUNED}
    with connection.cursor() as cursor:
        cursor.execute(_HISTOGRAMS, [SAMPLE_SCORES])
        for label, bar, count, confirmed in cursor.fetchall():
            scores[Label(label)][bar] = count
            known[Label(label)][bar] = confirmed
    return {label: Histogram(scores[label], known[label]) for label in TUNED}


def groups_of(policy: Policy) -> QuerySet[Group]:
    """The groups that follow a policy, by name."""
    follows = Q(policy=policy)
    if policy.is_default:
        follows |= Q(policy__isnull=True)
    return Group.objects.filter(follows).order_by("name", "external_id")


def groups_elsewhere(policy: Policy) -> QuerySet[Group]:
    """Some groups that follow another policy, to choose from."""
    mine = groups_of(policy).values("pk")
    return Group.objects.exclude(pk__in=mine).order_by("name", "external_id")[:GROUPS_SHOWN]


def audit_events(
    *, before_id: int | None = None, action: str = "", actor: str = ""
) -> list[AuditEvent]:
    """The newest events, or those before one; one more than a page, to know whether it goes on."""
    events = AuditEvent.objects.order_by("-id")
    if before_id is not None:
        events = events.filter(id__lt=before_id)
    if action:
        events = events.filter(action__startswith=action)
    if actor:
        events = events.filter(actor_name=actor)
    return list(events[: AUDIT_ROWS + 1])
