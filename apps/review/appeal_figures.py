"""How often appeals are overturned: by label, by policy version and by release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from apps.policies.models import Label, PolicyVersion
from apps.releases.models import Release
from apps.review.models import Appeal, AppealState

DAYS = 90
NEWEST = 50


@dataclass(frozen=True, slots=True)
class OverturnRate:
    """Of the appeals decided in DAYS days about one thing, how many were overturned."""

    name: str
    label: str
    decided: int
    overturned: int

    @property
    def rate(self) -> float:
        return self.overturned / self.decided


@dataclass(frozen=True, slots=True)
class OverturnTable:
    title: str
    rates: Sequence[OverturnRate]


def overturn_tables(*, now: datetime) -> list[OverturnTable]:
    """One table for each way to look at it, each in one query and one for the names."""
    decided = Appeal.objects.filter(
        decided_at__gt=now - timedelta(days=DAYS),
        state__in=[AppealState.UPHELD, AppealState.OVERTURNED],
    )
    counted = {
        key: list(
            decided.values_list(key)
            .annotate(
                decided=Count("pk"), overturned=Count("pk", filter=Q(state=AppealState.OVERTURNED))
            )
            .order_by(key)
        )
        for key in ("label", "policy_version", "release")
    }
    versions = PolicyVersion.objects.select_related("policy").in_bulk(
        _keys(counted, "policy_version")
    )
    releases = Release.objects.in_bulk(_keys(counted, "release"))
    return [
        OverturnTable(
            _("By label"),
            [OverturnRate(str(Label(k).label), k, n, o) for k, n, o in counted["label"]],
        ),
        OverturnTable(
            _("By policy version"),
            [
                OverturnRate(f"{v.policy} v{v.number}" if (v := versions.get(k)) else "–", "", n, o)
                for k, n, o in counted["policy_version"]
            ],
        ),
        OverturnTable(
            _("By release"),
            [
                OverturnRate(str(r) if (r := releases.get(k)) else "–", "", n, o)
                for k, n, o in counted["release"]
            ],
        ),
    ]


def _keys(counted: dict[str, list[tuple[int, int, int]]], name: str) -> Iterable[int]:
    return [row[0] for row in counted[name] if row[0] is not None]


def newest_appeals() -> list[Appeal]:
    """The newest appeals with their messages, open ones included."""
    found = Appeal.objects.select_related(
        "item__message", "decision__moderator", "decided_by", "entered_by"
    )
    return list(found.order_by("-pk")[:NEWEST])
