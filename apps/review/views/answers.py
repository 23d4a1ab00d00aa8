"""What the review views share: the card's context, and how a write is answered."""

from __future__ import annotations

from datetime import datetime
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from apps.accounts.access import SignedInRequest, View
from apps.review import blind, selectors
from apps.review.errors import AlreadyDecidedError, LeaseLostError, ReviewError
from apps.review.forms import (
    LeaseForm,
    filters_of,
)
from apps.review.models import CheckAnswer, Decision, ReviewItem
from apps.review.own_facts import Own, own_facts
from apps.review.presenting import card_context
from apps.review.queue import QueueFilters
from apps.review.services import decisions, leases
from apps.review.services.leases import Lease
from apps.review.wording import refusal

BAD_REQUEST, CONFLICT = 400, 409


def answers_refusals(view: View) -> View:
    """A write on what isn't there is answered with 404, one that may not be with why."""

    @wraps(view)
    def answered(request: SignedInRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except (ReviewItem.DoesNotExist, Decision.DoesNotExist) as error:
            raise Http404 from error
        except ReviewError as error:
            return refused(request, error)

    return answered


def own_of(request: SignedInRequest, now: datetime) -> Own:
    return own_facts(
        request.user, today_since=midnight(now), undoable_since=now - decisions.grace()
    )


def card_of(
    request: SignedInRequest, lease: Lease | None, item_id: int | None, now: datetime, own: Own
) -> dict[str, Any]:
    """Context of the card: leased, to look at, or (without an id) the empty queue."""
    shown = lease.item_id if lease else item_id
    context: dict[str, Any] = {
        "lease": lease,
        "keys": own.keys,
        "undo_s": decisions.grace().seconds,
        "care": own.care,
        "blurred": own.care.blurred,
        "today": own.decided_today,
    }
    if shown is None:
        return {**context, **_empty(request, now)}
    try:
        card = blind.card(request.user, shown, now=now)
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    left, most = ms(lease.until, now) if lease else 0, ms(now + leases.lease_time(), now)
    return {
        **context,
        **card_context(card, own.keys),
        "lease_ms": left,
        "lease_s": left / 1000,
        "lease_share": left / most,
        "lease_most_ms": most,
    }


def _empty(request: SignedInRequest, now: datetime) -> dict[str, Any]:
    return {
        "card": None,
        "filtered": filters_of(request.GET) != QueueFilters(),
        "skipped": selectors.skipped_count(request.user, now=now),
    }


def render_card(request: SignedInRequest, lease: Lease | None, item_id: int | None) -> HttpResponse:
    now = timezone.now()
    card = card_of(request, lease, item_id, now, own_of(request, now))
    return render(request, "review/card.html", card)


def done(request: HttpRequest, words: str, **facts: Any) -> HttpResponse:
    if wants_json(request):
        return JsonResponse({"text": words, **facts})
    messages.success(request, words)
    return to_queue(request)


def refused(request: HttpRequest, error: ReviewError) -> HttpResponse:
    text, sub = refusal(error)
    if wants_json(request) or wants_fragment(request):
        return JsonResponse({"text": text, "sub": sub, "kind": _kind(error)}, status=CONFLICT)
    messages.warning(request, f"{text} {sub}".strip())
    return to_queue(request)


def _kind(error: ReviewError) -> str:
    if isinstance(error, AlreadyDecidedError):
        return "decided"
    return "lease" if isinstance(error, LeaseLostError) else "gone"


def invalid(request: SignedInRequest, form: Any, item_id: int) -> HttpResponse:
    text = " ".join(error for errors in form.errors.values() for error in errors)
    if wants_json(request):
        fields = {name: list(errors) for name, errors in form.errors.items()}
        return JsonResponse({"text": text, "fields": fields}, status=BAD_REQUEST)
    messages.error(request, text)
    return redirect("review:item", item_id)


def wants_json(request: HttpRequest) -> bool:
    return request.headers.get("Accept", "").startswith("application/json")


def wants_fragment(request: HttpRequest) -> bool:
    return request.headers.get("X-Fragment") == "card"


def to_queue(request: HttpRequest) -> HttpResponse:
    response = redirect("review:queue")
    query = filters_query(request)
    if query:
        response["Location"] += f"?{query}"
    return response


def filters_query(request: HttpRequest) -> str:
    return request.GET.urlencode()


def token(request: HttpRequest) -> UUID:
    form = LeaseForm(request.POST)
    if not form.is_valid():
        raise Http404
    token: UUID = form.cleaned_data["token"]
    return token


def midnight(now: datetime) -> datetime:
    return timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)


def undo_ms(decision: Decision | CheckAnswer, now: datetime) -> int:
    return ms(decision.decided_at + decisions.grace(), now)


def ms(until: datetime, now: datetime) -> int:
    return max(int((until - now).total_seconds() * 1000), 0)
