"""How review goes: a page, CSV and JSON."""

from __future__ import annotations

import csv
from dataclasses import fields
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission, may
from apps.review import figures

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@require_GET
@never_cache
@requires(Permission.REVIEW)
def show_figures(request: SignedInRequest) -> HttpResponse:
    """How review goes: the team's for leads, one's own for everybody; also as CSV and JSON."""
    is_lead = may(request.user, Permission.REVIEW_LEAD)
    team = is_lead and "own" not in request.GET
    moderator, now = None if team else request.user.pk, timezone.now()
    days = figures.by_day(now=now, zone=timezone.get_current_timezone_name(), moderator=moderator)
    wanted = request.GET.get("format")
    if wanted == "csv":
        return _csv(figures.as_rows(days))
    at_thresholds = figures.at_thresholds(now=now, moderator=moderator)
    if wanted == "json":
        return JsonResponse(
            {
                "target_s": settings.REVIEW_TARGET_S,
                "days": figures.as_rows(days),
                "queue": figures.as_rows(figures.by_hour(now=now)),
                "labels_at_thresholds": figures.as_rows(at_thresholds),
            }
        )
    context = {
        "days": days,
        "labels": figures.by_label(now=now, moderator=moderator),
        "at_thresholds": at_thresholds,
        "target": timedelta(seconds=settings.REVIEW_TARGET_S),
        "is_lead": is_lead,
        "team": team,
    }
    return render(request, "review/figures.html", context)


def safe_cell(value: object) -> object:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    is_formula = isinstance(value, str) and value.lstrip().startswith(FORMULA_STARTS)
    return f"'{value}" if is_formula else value


def _csv(rows: list[dict[str, Any]]) -> HttpResponse:
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="review-figures.csv"'
    names = [field.name for field in fields(figures.DayFigures)]
    writer = csv.DictWriter(response, names)
    writer.writeheader()
    writer.writerows({name: safe_cell(value) for name, value in row.items()} for row in rows)
    return response
