"""The members of a wave: read them all, take some out."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.review import wave_facts
from apps.review.forms import LeaseForm, MembersForm
from apps.review.models import ReviewItem
from apps.review.presenting import join_minutes
from apps.review.services import waves
from apps.review.views.answers import answers_refusals, invalid


@require_GET
@never_cache
@requires(Permission.REVIEW)
def members(request: SignedInRequest, item_id: int) -> HttpResponse:
    """All members of an open item's wave, a page at a time, or those that differ most."""
    form = MembersForm(request.GET)
    if not form.is_valid():
        raise Http404
    return _render(request, item_id, **form.cleaned_data)


@require_POST
@requires(Permission.REVIEW)
@answers_refusals
def take_out(request: SignedInRequest, item_id: int, member_id: int) -> HttpResponse:
    form = LeaseForm(request.POST)
    if not form.is_valid():
        return invalid(request, form, item_id)
    waves.take_out(request.user, item_id, member_id, token=form.cleaned_data["token"])
    if _wants_fragment(request):
        return _render(request, item_id, after=None, different=True)
    messages.success(request, _("Taken out. It waits by itself now."))
    return redirect("review:item", item_id)


def _render(
    request: SignedInRequest, item_id: int, *, after: int | None, different: bool
) -> HttpResponse:
    now = timezone.now()
    item = ReviewItem.objects.select_related("message").filter(pk=item_id).first()
    if item is None:
        raise Http404
    wave = wave_facts.wave_card(request.user, item, now=now)
    if wave is None and not _wants_fragment(request):
        return redirect("review:item", item_id)
    context: dict[str, Any] = {
        "item": item,
        "wave": wave,
        "token": _token(request, item),
        "join_minutes": join_minutes(),
    }
    if wave is not None and different:
        context["members"] = wave.different
    elif wave is not None:
        page = wave_facts.members_page(request.user, item, after=after)
        context |= {"members": page.members, "after": page.goes_on_after, "is_all": True}
    name = "review/wave.html" if _wants_fragment(request) else "review/wave_page.html"
    return render(request, name, context)


def _token(request: SignedInRequest, item: ReviewItem) -> UUID | None:
    """The lease under which the person may take members out, if they have it."""
    return item.lease_token if item.leased_by_id == request.user.pk else None


def _wants_fragment(request: SignedInRequest) -> bool:
    return request.headers.get("X-Fragment") == "wave"
