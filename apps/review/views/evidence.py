"""What a card shows later: the spans that carry the verdict, more of the conversation."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.review import blind, selectors
from apps.review.forms import AroundForm
from apps.review.models import ReviewItem
from apps.review.presenting import conversation_context, spans_context
from apps.scoring.explaining import ExplainerAwayError, contributions


@require_GET
@never_cache
@requires(Permission.REVIEW)
def spans(request: SignedInRequest, item_id: int) -> HttpResponse:
    """The texts with the spans marked; says so when the model server can't be asked."""
    try:
        evidence = selectors.evidence(item_id)
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    if evidence.label is None:
        return render(request, "review/spans.html", {"state": "none"})
    try:
        shares = contributions(evidence.text, evidence.label)
    except ExplainerAwayError:
        return render(request, "review/spans.html", {"state": "away"})
    return render(request, "review/spans.html", spans_context(evidence, shares.tolist()))


@require_GET
@never_cache
@requires(Permission.REVIEW)
def conversation(request: SignedInRequest, item_id: int) -> HttpResponse:
    """The conversation around an item, as far as `each` messages on each side."""
    form = AroundForm(request.GET)
    if not form.is_valid():
        return redirect("review:item", item_id)
    try:
        around = blind.conversation(request.user, item_id, form.cleaned_data["each"])
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    context = {**conversation_context(item_id, around), "keys": selectors.keys_of(request.user)}
    return render(request, "review/conversation.html", context)
