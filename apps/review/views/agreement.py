"""How far people agree: the team's figures and what is to settle for leads, one's own for all."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.review import check_figures
from apps.review.errors import ReviewError
from apps.review.forms import ReversalForm, SharesForm
from apps.review.models import Check, Decision, Gold
from apps.review.presenting import reversal_choices
from apps.review.services import checks, gold, settling
from apps.review.services.checks import Shares
from apps.review.views.history import back_to_history
from apps.review.wording import refusal


@require_GET
@never_cache
@requires(Permission.REVIEW)
def show(request: SignedInRequest) -> HttpResponse:
    """The page; with `X-Fragment`-like reloads its figures come alone from `figures`."""
    context = {**_figures(request.user), "live_url": "/ws/review/", "days": check_figures.DAYS}
    if context["is_lead"]:
        shares = checks.shares()
        context["shares"] = SharesForm.of(shares.second, shares.gold)
        context["gold"] = check_figures.gold_items()
        context["choices"] = reversal_choices()
        context["settling"] = check_figures.to_settle(request.user, now=timezone.now())
    return render(request, "review/agreement.html", context)


@require_GET
@never_cache
@requires(Permission.REVIEW)
def figures(request: SignedInRequest) -> HttpResponse:
    """The figures alone, fetched anew when somebody answers."""
    return render(request, "review/agreement_figures.html", _figures(request.user))


def _figures(user: User) -> dict[str, Any]:
    now = timezone.now()
    if not may(user, Permission.REVIEW_LEAD):
        found = check_figures.looks(now=now, of=user)
        return {
            "is_lead": False,
            "overall": [check_figures.own(found, user, _("You and all others"))],
            "gold_scores": check_figures.gold_scores(now=now, of=user),
        }
    found = check_figures.looks(now=now)
    return {
        "is_lead": True,
        "overall": [check_figures.overall(found, _("Everybody"))],
        "by_label": check_figures.by_label(found),
        "pairs": check_figures.by_pair(found),
        "gold_scores": check_figures.gold_scores(now=now),
        "unreviewed": check_figures.waiting_count(now=now),
    }


@require_POST
@requires(Permission.REVIEW_LEAD)
def set_shares(request: SignedInRequest) -> HttpResponse:
    form = SharesForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Shares are from 0 to 100 per cent."))
        return redirect("review:agreement")
    data = form.cleaned_data
    checks.set_shares(request.user, Shares(data["second"] / 100, data["gold"] / 100))
    messages.success(request, _("Saved. It holds from the next decision on."))
    return redirect("review:agreement")


@require_POST
@requires(Permission.REVIEW_LEAD)
def settle(request: SignedInRequest, check_id: int) -> HttpResponse:
    form = ReversalForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Choose what shall stand."))
        return redirect("review:agreement")
    try:
        settling.settle(request.user, check_id, form.chosen())
    except Check.DoesNotExist as error:
        raise Http404 from error
    except ReviewError as error:
        messages.warning(request, " ".join(refusal(error)))
        return redirect("review:agreement")
    messages.success(request, _("Settled."))
    return redirect("review:agreement")


@require_POST
@requires(Permission.REVIEW_LEAD)
def make_gold(request: SignedInRequest, decision_id: int) -> HttpResponse:
    try:
        gold.make_gold(request.user, decision_id)
    except Decision.DoesNotExist as error:
        raise Http404 from error
    except ReviewError as error:
        messages.warning(request, " ".join(refusal(error)))
        return back_to_history(request)
    messages.success(request, _("It is served to others now, with this decision as the answer."))
    return back_to_history(request)


@require_POST
@requires(Permission.REVIEW_LEAD)
def retire_gold(request: SignedInRequest, gold_id: int) -> HttpResponse:
    try:
        gold.retire_gold(request.user, gold_id)
    except Gold.DoesNotExist as error:
        raise Http404 from error
    messages.success(request, _("It is served no more."))
    return redirect("review:agreement")
