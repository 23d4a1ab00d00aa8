"""What one decided, to take back or reverse."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission, may
from apps.review import selectors
from apps.review.errors import ReviewError
from apps.review.exposure import care_of
from apps.review.forms import (
    HistoryForm,
    ReversalForm,
)
from apps.review.models import Decision
from apps.review.models.wellbeing import UNDETERMINED
from apps.review.presenting import reversal_choices
from apps.review.services import decisions
from apps.review.views.answers import midnight
from apps.review.wording import refusal, told


@require_GET
@never_cache
@requires(Permission.REVIEW)
def history(request: SignedInRequest) -> HttpResponse:
    """What one decided, to take back or reverse; for leads what everybody did."""
    form = HistoryForm(request.GET)
    form.is_valid()
    data = form.cleaned_data
    is_lead = may(request.user, Permission.REVIEW_LEAD)
    everybody = is_lead and data.get("everybody", False)
    found = selectors.past_decisions(
        None if everybody else request.user,
        before_id=data.get("before"),
        grace=decisions.grace(),
    )
    care = care_of(request.user)
    labels = {one.decision.item.label or UNDETERMINED for one in found}
    context = {
        "care": care,
        "has_veiled": not labels.union(one.decision.label for one in found).isdisjoint(
            care.blurred
        ),
        "reveal_key": selectors.keys_of(request.user)["reveal"],
        "past": found[: selectors.HISTORY_PAGE],
        "goes_on": len(found) > selectors.HISTORY_PAGE,
        "everybody": everybody,
        "is_lead": is_lead,
        "choices": reversal_choices(),
        "today": selectors.decided_count(request.user, since=midnight(timezone.now())),
    }
    return render(request, "review/history.html", context)


@require_POST
@requires(Permission.REVIEW)
def reverse(request: SignedInRequest, decision_id: int) -> HttpResponse:
    form = ReversalForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Choose what it shall be instead."))
        return back_to_history(request)
    try:
        decision = decisions.reverse_decision(request.user, decision_id, form.chosen())
    except Decision.DoesNotExist as error:
        raise Http404 from error
    except ReviewError as error:
        messages.warning(request, " ".join(refusal(error)))
        return back_to_history(request)
    messages.success(request, _("Reversed. %(what)s") % {"what": told(decision)})
    return back_to_history(request)


def back_to_history(request: SignedInRequest) -> HttpResponse:
    response = redirect("review:history")
    if request.GET:
        response["Location"] += f"?{request.GET.urlencode()}"
    return response
