"""How review goes: a page, CSV and JSON."""

from __future__ import annotations

import csv
from dataclasses import fields
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission, may
from apps.review import figures


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
    if wanted == "json":
        return JsonResponse({"days": figures.as_rows(days)})
    if wanted == "csv":
        return _csv(figures.as_rows(days))
    labels = figures.by_label(now=now, moderator=moderator)
    context = {"days": days, "labels": labels, "is_lead": is_lead, "team": team}
    return render(request, "review/figures.html", context)


def _csv(rows: list[dict[str, Any]]) -> HttpResponse:
    """Numbers and dates only: nothing in it can be taken for a formula."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="review-figures.csv"'
    names = [field.name for field in fields(figures.DayFigures)]
    writer = csv.DictWriter(response, names)
    writer.writeheader()
    writer.writerows(rows)
    return response
