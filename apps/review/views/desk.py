"""The review page: the queue, one card at a time, and the fragments that keep both fresh.

Each form works by itself (post, redirect, page). With `Accept: application/json` a write answers
with what the page needs to go on; card and queue come as HTML fragments.
"""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.review import blind
from apps.review.errors import ItemWithdrawnError, ReviewError
from apps.review.forms import (
    BesidesForm,
    DecisionForm,
    LeaseForm,
    VersionForm,
    filters_of,
)
from apps.review.keys import GROUPS
from apps.review.models import ReviewItem
from apps.review.presenting import queue_context
from apps.review.queue import query_of
from apps.review.queue_page import groups_with_work
from apps.review.services import leases, serving
from apps.review.services.leases import Lease
from apps.review.services.wellbeing import count_shown
from apps.review.views.answers import (
    BAD_REQUEST,
    answers_refusals,
    card_of,
    done,
    invalid,
    ms,
    own_of,
    render_card,
    to_queue,
    token,
    undo_ms,
    wants_fragment,
)
from apps.review.views.history import back_to_history
from apps.review.wording import decision_count, told


@require_GET
@never_cache
@requires(Permission.REVIEW)
def queue(request: SignedInRequest) -> HttpResponse:
    """The page, with the most urgent free item opened."""
    lease = serving.open_next(request.user, filters_of(request.GET))
    return _page(request, lease)


@require_GET
@never_cache
@requires(Permission.REVIEW)
def item(request: SignedInRequest, item_id: int) -> HttpResponse:
    """The page with a chosen item: opened if it is free, else to look at."""
    try:
        lease = serving.open_item(request.user, item_id)
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
    own = own_of(request, now)
    card = card_of(request, lease, item_id, now, own)
    if card["card"] is not None:
        count_shown(request.user, [card["card"].item.pk], now=now)
    undoable = own.undoable
    context = {
        **card,
        **queue_context(blind.queue_page(request.user, filters, now=now), filters),
        "groups": groups_with_work(request.user, filters.group_id),
        "views": own.views,
        "query": query_of(filters),
        "key_groups": GROUPS,
        "commands": {key: command for command, key in card["keys"].items()},
        "undoable": undoable,
        "undo_text": told(undoable) if undoable else "",
        "undo_ms": undo_ms(undoable, now) if undoable else 0,
        "live_url": "/ws/review/",
    }
    return render(request, "review/page.html", context)


@require_GET
@never_cache
@requires(Permission.REVIEW)
def rows(request: SignedInRequest) -> HttpResponse:
    """The queue alone."""
    filters = filters_of(request.GET)
    page = blind.queue_page(request.user, filters)
    own = own_of(request, timezone.now())
    context = {
        **queue_context(page, filters),
        "keys": own.keys,
        "blurred": own.care.blurred,
    }
    return render(request, "review/queue.html", context)


@require_GET
@never_cache
@requires(Permission.REVIEW)
def look(request: SignedInRequest, item_id: int) -> HttpResponse:
    """A card as it stands now, without taking a lease."""
    shown = render_card(request, None, item_id)
    count_shown(request.user, [item_id])
    return shown


@require_POST
@requires(Permission.REVIEW)
def take_next(request: SignedInRequest) -> HttpResponse:
    """Lease the next item beside those that the page has, and show it (or the empty queue)."""
    form = BesidesForm({"besides": request.POST.getlist("besides")})
    if not form.is_valid():
        return HttpResponse(status=BAD_REQUEST)
    lease = serving.open_next(
        request.user,
        filters_of(request.GET),
        besides=form.cleaned_data["besides"],
        resume=False,
    )
    return render_card(request, lease, None)


@require_POST
@requires(Permission.REVIEW)
def take(request: SignedInRequest, item_id: int) -> HttpResponse:
    """Lease a chosen item and show it; to look at only, when it can't be had."""
    try:
        lease = serving.open_item(request.user, item_id)
    except ReviewItem.DoesNotExist as error:
        raise Http404 from error
    except ReviewError:
        return render_card(request, None, item_id)
    return render_card(request, lease, None)


@require_POST
@requires(Permission.REVIEW)
@answers_refusals
def decide(request: SignedInRequest, item_id: int) -> HttpResponse:
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return invalid(request, form, item_id)
    data = form.cleaned_data
    decision = serving.decide(
        request.user,
        item_id,
        token=data["token"],
        version=data["version"],
        choice=form.choice(),
        strike=data["strike"],
    )
    now = timezone.now()
    return done(
        request,
        told(decision),
        decision=decision.pk,
        item=decision.item_id,
        count=decision_count(decision),
        undo_ms=undo_ms(decision, now),
    )


@require_POST
@requires(Permission.REVIEW)
@answers_refusals
def undo(request: SignedInRequest, decision_id: int) -> HttpResponse:
    """Take a decision back and show its card again."""
    lease, item_id = serving.undo(request.user, decision_id)
    if wants_fragment(request):
        return render_card(request, lease, item_id)
    messages.success(request, _("Taken back. The message waits again."))
    return back_to_history(request) if "history" in request.POST else to_queue(request)


@require_POST
@requires(Permission.REVIEW)
@answers_refusals
def recall(request: SignedInRequest, item_id: int) -> HttpResponse:
    """Have an item again whose decision was sent, but never answered."""
    lease = serving.recall(request.user, item_id, token(request))
    if lease is None:
        raise ItemWithdrawnError
    return JsonResponse({"token": lease.token, "version": lease.version})


@require_POST
@requires(Permission.REVIEW)
@answers_refusals
def skip(request: SignedInRequest, item_id: int) -> HttpResponse:
    form = LeaseForm(request.POST)
    if not form.is_valid():
        return invalid(request, form, item_id)
    serving.skip(request.user, item_id, form.cleaned_data["token"])
    return done(request, _("Skipped. It comes back to others at once, to you in ten minutes."))


@require_POST
@requires(Permission.REVIEW)
@answers_refusals
def escalate(request: SignedInRequest, item_id: int) -> HttpResponse:
    form = VersionForm(request.POST)
    if not form.is_valid():
        return invalid(request, form, item_id)
    data = form.cleaned_data
    serving.escalate(request.user, item_id, token=data["token"], version=data["version"])
    return done(request, _("Handed to a lead."))


@require_POST
@requires(Permission.REVIEW)
def extend(request: SignedInRequest, item_id: int) -> HttpResponse:
    """Keep the lease; `left_ms` is null when it is lost.

    The page also says with it that a card, which it fetched before, is on the desk now (`shown`).
    """
    if "shown" in request.POST:
        count_shown(request.user, [item_id])
    until = serving.extend_lease(request.user, item_id, token(request))
    return JsonResponse({"left_ms": ms(until, timezone.now()) if until else None})


@require_POST
@requires(Permission.REVIEW)
def ask(request: SignedInRequest, item_id: int) -> HttpResponse:
    """How the lease stands, as `extend` answers, without a change to it."""
    until = serving.lease_end(request.user, item_id, token(request))
    return JsonResponse({"left_ms": ms(until, timezone.now()) if until else None})


@require_POST
@requires(Permission.REVIEW)
def release(request: SignedInRequest, item_id: int) -> HttpResponse:
    """Give the item back: a tab that closes sends this as a beacon."""
    serving.release_lease(request.user, item_id, token(request))
    # No redirect: a beacon follows it, and the queue's page would take a lease for nobody.
    return HttpResponse(status=204)


@require_POST
@requires(Permission.REVIEW)
def look_again(request: SignedInRequest) -> HttpResponse:
    """Let skipped items come back."""
    leases.forget_skips(request.user)
    return to_queue(request)
