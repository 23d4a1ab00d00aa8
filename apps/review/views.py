"""The review page: the queue, one card at a time, and the fragments that keep both fresh.

Each form works by itself (post, redirect, page). With `Accept: application/json` a write answers
with what the page needs to go on; card and queue come as HTML fragments.
"""

from __future__ import annotations

import csv
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission, may
from apps.review import figures, selectors
from apps.review.errors import AlreadyDecidedError, LeaseLostError, ReviewError
from apps.review.forms import (
    BesidesForm,
    DecisionForm,
    HistoryForm,
    LeaseForm,
    ReversalForm,
    VersionForm,
    filters_of,
)
from apps.review.models import Decision, ReviewItem
from apps.review.queue import QueueFilters
from apps.review.services import decisions, leases
from apps.review.services.leases import Lease
from apps.review.showing import card_context, queue_context, reversal_choices
from apps.review.wording import refusal, told

BAD_REQUEST, CONFLICT = 400, 409


@require_GET
@never_cache
@requires(Permission.REVIEW)
def queue(request: SignedInRequest) -> HttpResponse:
    """The page, with the most urgent free item opened."""
    lease = leases.open_next(request.user, filters_of(request.GET))
    return _page(request, lease)


@require_GET
@never_cache
@requires(Permission.REVIEW)
def item(request: SignedInRequest, item_id: int) -> HttpResponse:
    """The page with a chosen item: opened if it is free, else to look at."""
    try:
        lease = leases.open_item(request.user, item_id)
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    except ReviewError:
        return _page(request, None, item_id=item_id)
    return _page(request, lease)


def _page(
    request: SignedInRequest, lease: Lease | None, item_id: int | None = None
) -> HttpResponse:
    now = timezone.now()
    filters = filters_of(request.GET)
    undoable = selectors.latest_undoable(request.user, since=now - decisions.grace())
    context = {
        **_card(request, lease, item_id, now),
        **queue_context(selectors.queue_page(request.user, filters, now=now), filters),
        "groups": selectors.groups_with_work(request.user),
        "undoable": undoable,
        "undo_text": told(undoable) if undoable else "",
        "undo_ms": _undo_ms(undoable, now) if undoable else 0,
        "live_url": "/ws/review/",
    }
    return render(request, "review/page.html", context)


@require_GET
@never_cache
@requires(Permission.REVIEW)
def rows(request: SignedInRequest) -> HttpResponse:
    """The queue alone."""
    filters = filters_of(request.GET)
    page = selectors.queue_page(request.user, filters)
    return render(request, "review/queue.html", queue_context(page, filters))


@require_GET
@never_cache
@requires(Permission.REVIEW)
def look(request: SignedInRequest, item_id: int) -> HttpResponse:
    """A card as it stands now, without taking a lease."""
    return _render_card(request, None, item_id)


@require_POST
@requires(Permission.REVIEW)
def take_next(request: SignedInRequest) -> HttpResponse:
    """Lease the next item beside those that the page has, and show it (or the empty queue)."""
    form = BesidesForm({"besides": request.POST.getlist("besides")})
    if not form.is_valid():
        return HttpResponse(status=BAD_REQUEST)
    lease = leases.open_next(
        request.user,
        filters_of(request.GET),
        besides=form.cleaned_data["besides"],
        resume=False,
    )
    return _render_card(request, lease, None)


@require_POST
@requires(Permission.REVIEW)
def take(request: SignedInRequest, item_id: int) -> HttpResponse:
    """Lease a chosen item and show it; to look at only, when it can't be had."""
    try:
        lease = leases.open_item(request.user, item_id)
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    except ReviewError:
        return _render_card(request, None, item_id)
    return _render_card(request, lease, None)


@require_POST
@requires(Permission.REVIEW)
def decide(request: SignedInRequest, item_id: int) -> HttpResponse:
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return _invalid(request, form, item_id)
    data = form.cleaned_data
    try:
        decision = decisions.decide(
            request.user,
            item_id,
            token=data["token"],
            version=data["version"],
            choice=form.choice(),
        )
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    except ReviewError as error:
        return _refused(request, error)
    now = timezone.now()
    return _done(
        request,
        told(decision),
        decision=decision.pk,
        item=decision.item_id,
        undo_ms=_undo_ms(decision, now),
    )


@require_POST
@requires(Permission.REVIEW)
def undo(request: SignedInRequest, decision_id: int) -> HttpResponse:
    """Take a decision back and show its card again."""
    try:
        lease = decisions.undo_decision(request.user, decision_id)
    except Decision.DoesNotExist as error:
        raise Http404 from error
    except ReviewError as error:
        return _refused(request, error)
    if _wants_fragment(request):
        item_id = Decision.objects.values_list("item_id", flat=True).get(pk=decision_id)
        return _render_card(request, lease, item_id)
    messages.success(request, _("Taken back. The message waits again."))
    return _back_to_history(request) if "history" in request.POST else _to_queue(request)


@require_POST
@requires(Permission.REVIEW)
def skip(request: SignedInRequest, item_id: int) -> HttpResponse:
    form = LeaseForm(request.POST)
    if not form.is_valid():
        return _invalid(request, form, item_id)
    try:
        leases.skip(request.user, item_id, form.cleaned_data["token"])
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    except ReviewError as error:
        return _refused(request, error)
    return _done(request, _("Skipped. It comes back to others at once, to you in ten minutes."))


@require_POST
@requires(Permission.REVIEW)
def escalate(request: SignedInRequest, item_id: int) -> HttpResponse:
    form = VersionForm(request.POST)
    if not form.is_valid():
        return _invalid(request, form, item_id)
    data = form.cleaned_data
    try:
        decisions.escalate(request.user, item_id, token=data["token"], version=data["version"])
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    except ReviewError as error:
        return _refused(request, error)
    return _done(request, _("Handed to a lead."))


@require_POST
@requires(Permission.REVIEW)
def extend(request: SignedInRequest, item_id: int) -> HttpResponse:
    """Keep the lease; `left_ms` is null when it is lost."""
    until = leases.extend_lease(request.user, item_id, _token(request))
    return JsonResponse({"left_ms": _ms(until, timezone.now()) if until else None})


@require_POST
@requires(Permission.REVIEW)
def release(request: SignedInRequest, item_id: int) -> HttpResponse:
    """Give the item back: a tab that closes sends this as a beacon."""
    leases.release_lease(request.user, item_id, _token(request))
    # No redirect: a beacon follows it, and the queue's page would take a lease for nobody.
    return HttpResponse(status=204)


@require_POST
@requires(Permission.REVIEW)
def look_again(request: SignedInRequest) -> HttpResponse:
    """Let skipped items come back."""
    leases.forget_skips(request.user)
    return _to_queue(request)


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
    context = {
        "past": found[: selectors.HISTORY_PAGE],
        "goes_on": len(found) > selectors.HISTORY_PAGE,
        "everybody": everybody,
        "is_lead": is_lead,
        "choices": reversal_choices(),
        "today": selectors.decided_count(request.user, since=_midnight(timezone.now())),
    }
    return render(request, "review/history.html", context)


@require_POST
@requires(Permission.REVIEW)
def reverse(request: SignedInRequest, decision_id: int) -> HttpResponse:
    form = ReversalForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Choose what it shall be instead."))
        return _back_to_history(request)
    try:
        decision = decisions.reverse_decision(request.user, decision_id, form.chosen())
    except Decision.DoesNotExist as error:
        raise Http404 from error
    except ReviewError as error:
        messages.warning(request, " ".join(refusal(error)))
        return _back_to_history(request)
    messages.success(request, _("Reversed. %(what)s") % {"what": told(decision)})
    return _back_to_history(request)


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


def _back_to_history(request: SignedInRequest) -> HttpResponse:
    response = redirect("review:history")
    if request.GET:
        response["Location"] += f"?{request.GET.urlencode()}"
    return response


# ---------- what the views share ----------


def _card(
    request: SignedInRequest, lease: Lease | None, item_id: int | None, now: datetime
) -> dict[str, Any]:
    """Context of the card: leased, to look at, or (without an id) the empty queue."""
    shown = lease.item_id if lease else item_id
    context: dict[str, Any] = {"lease": lease, "undo_s": decisions.grace().seconds}
    if shown is None:
        return {**context, **_empty(request, now)}
    try:
        card = selectors.card(shown, now=now)
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    left, most = _ms(lease.until, now) if lease else 0, _ms(now + leases.lease_time(), now)
    return {
        **context,
        **card_context(card),
        "lease_ms": left,
        "lease_s": left / 1000,
        "lease_share": left / most,
        "lease_most_ms": most,
        "today": selectors.decided_count(request.user, since=_midnight(now)),
    }


def _empty(request: SignedInRequest, now: datetime) -> dict[str, Any]:
    return {
        "card": None,
        "filtered": filters_of(request.GET) != QueueFilters(),
        "skipped": selectors.skipped_count(request.user, now=now),
        "today": selectors.decided_count(request.user, since=_midnight(now)),
    }


def _render_card(
    request: SignedInRequest, lease: Lease | None, item_id: int | None
) -> HttpResponse:
    return render(request, "review/card.html", _card(request, lease, item_id, timezone.now()))


def _done(request: HttpRequest, words: str, **facts: Any) -> HttpResponse:
    if _wants_json(request):
        return JsonResponse({"text": words, **facts})
    messages.success(request, words)
    return _to_queue(request)


def _refused(request: HttpRequest, error: ReviewError) -> HttpResponse:
    text, sub = refusal(error)
    if _wants_json(request) or _wants_fragment(request):
        return JsonResponse({"text": text, "sub": sub, "kind": _kind(error)}, status=CONFLICT)
    messages.warning(request, f"{text} {sub}".strip())
    return _to_queue(request)


def _kind(error: ReviewError) -> str:
    if isinstance(error, AlreadyDecidedError):
        return "decided"
    return "lease" if isinstance(error, LeaseLostError) else "gone"


def _invalid(request: SignedInRequest, form: Any, item_id: int) -> HttpResponse:
    text = " ".join(error for errors in form.errors.values() for error in errors)
    if _wants_json(request):
        fields = {name: list(errors) for name, errors in form.errors.items()}
        return JsonResponse({"text": text, "fields": fields}, status=BAD_REQUEST)
    messages.error(request, text)
    return redirect("review:item", item_id)


def _wants_json(request: HttpRequest) -> bool:
    return request.headers.get("Accept", "").startswith("application/json")


def _wants_fragment(request: HttpRequest) -> bool:
    return request.headers.get("X-Fragment") == "card"


def _to_queue(request: HttpRequest) -> HttpResponse:
    response = redirect("review:queue")
    query = filters_query(request)
    if query:
        response["Location"] += f"?{query}"
    return response


def filters_query(request: HttpRequest) -> str:
    return request.GET.urlencode()


def _token(request: HttpRequest) -> UUID:
    form = LeaseForm(request.POST)
    if not form.is_valid():
        raise Http404
    token: UUID = form.cleaned_data["token"]
    return token


def _midnight(now: datetime) -> datetime:
    return timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)


def _undo_ms(decision: Decision, now: datetime) -> int:
    return _ms(decision.decided_at + decisions.grace(), now)


def _ms(until: datetime, now: datetime) -> int:
    return max(int((until - now).total_seconds() * 1000), 0)
