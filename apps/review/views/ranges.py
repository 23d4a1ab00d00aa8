"""Bulk by score: a chart of the open items, a range of it to read, one decision for the rest."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.policies.models import Label
from apps.review import score_range, selectors
from apps.review.errors import ReviewError
from apps.review.exposure import care_of
from apps.review.forms import RangeDecisionForm, RangeForm, filters_of
from apps.review.models import Decision
from apps.review.queue import QueueFilters
from apps.review.services import decisions
from apps.review.services.ranges import decide_range
from apps.review.services.wellbeing import count_shown
from apps.review.views.answers import undo_ms
from apps.review.wording import refusal, told


@require_GET
@never_cache
@requires(Permission.REVIEW)
def show(request: SignedInRequest) -> HttpResponse:
    """The chart, and the list of what scores between `low` and `high`."""
    form = RangeForm(request.GET)
    form.is_valid()
    data = form.cleaned_data
    low, high = data.get("low"), data.get("high")
    low, high = (0.9 if low is None else low), (1.0 if high is None else high)
    filters = filters_of(request.GET)
    label = filters.label or score_range.first_label(request.user)
    part = QueueFilters(label=label, group_id=filters.group_id)
    read = score_range.in_range(request.user, part, min(low, high), max(low, high))
    count_shown(request.user, [item.id for item in read.items])
    context = {
        "chart": score_range.chart(request.user, part),
        "range": read,
        "care": care_of(request.user),
        "keys": selectors.keys_of(request.user),
        "low": min(low, high),
        "high": max(low, high),
        # As number inputs take it, whatever the language writes for a decimal point.
        "low_text": f"{min(low, high):.2f}",
        "high_text": f"{max(low, high):.2f}",
        "label": label,
        "labels": Label.choices,
        "filters": part,
        "token": uuid4(),
        **_undo(request),
    }
    fragment = request.headers.get("X-Fragment") == "range"
    name = "review/range_list.html" if fragment else "review/range.html"
    return render(request, name, context)


def _undo(request: SignedInRequest) -> dict[str, Any]:
    now = timezone.now()
    newest = selectors.latest_undoable(request.user, since=now - decisions.grace())
    if not isinstance(newest, Decision) or newest.joint_id is None:
        return {}
    return {"undoable": newest, "undo_text": told(newest), "undo_ms": undo_ms(newest, now)}


@require_POST
@requires(Permission.REVIEW)
def decide(request: SignedInRequest) -> HttpResponse:
    """Ask once, then decide what is still as it was read."""
    form = RangeDecisionForm(request.POST)
    if not form.is_valid():
        text = " ".join(str(error) for errors in form.errors.values() for error in errors)
        messages.error(request, text)
        return _back(request)
    if not form.cleaned_data["confirmed"]:
        return render(
            request, "review/range_confirm.html", {"form": form, "choice": form.decided()}
        )
    try:
        swept = decide_range(
            request.user,
            form.cleaned_data["items"],
            token=form.cleaned_data["token"],
            choice=form.decided(),
        )
    except ReviewError as error:
        messages.warning(request, " ".join(refusal(error)))
        return _back(request)
    if swept.decision is not None:
        messages.success(request, told(swept.decision))
    if swept.left_out:
        words = ngettext(
            "%(n)s was left out: it changed, or somebody else has it.",
            "%(n)s were left out: they changed, or somebody else has them.",
            swept.left_out,
        )
        messages.warning(request, words % {"n": swept.left_out})
    return _back(request)


@require_POST
@requires(Permission.REVIEW)
def undo(request: SignedInRequest, decision_id: int) -> HttpResponse:
    """Take a whole range back and show it again."""
    try:
        decisions.undo_decision(request.user, decision_id)
    except Decision.DoesNotExist:
        messages.warning(request, _("There is nothing to take back."))
    except ReviewError as error:
        messages.warning(request, " ".join(refusal(error)))
    else:
        messages.success(request, _("Taken back. The messages wait again."))
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    query = request.GET.urlencode()
    return redirect(reverse("review:range") + (f"?{query}" if query else ""))
