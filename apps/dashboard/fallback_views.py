"""What an outage, or an operator who degraded to the lists, has changed."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.dashboard.fallbacks import SHOWN, FallbackPage, FallbackRow, Fate, fallback_page
from apps.dashboard.feed import may_read_messages
from apps.policies.models import Action, Label
from apps.scoring.models import Source

MOST_ROWS = 1_000
FATE_WORDS = {
    Fate.CHANGED: _("changed since"),
    Fate.SAME: _("confirmed since"),
    Fate.WAITING: _("waiting for the model"),
}
SOURCE_WORDS = {Source.MODEL: _("model"), Source.RULES: _("lists"), Source.PERSON: _("person")}


class FallbackForm(forms.Form):
    fate = forms.ChoiceField(choices=[(each.value, each.value) for each in Fate], required=False)
    before = forms.IntegerField(min_value=1, max_value=2**63 - 1, required=False)
    limit = forms.IntegerField(min_value=1, max_value=MOST_ROWS, required=False)


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def fallback(request: SignedInRequest) -> HttpResponse:
    form = FallbackForm(request.GET)
    if not form.is_valid():
        return HttpResponseBadRequest()
    fate = Fate(form.cleaned_data["fate"] or Fate.CHANGED)
    may_read = may_read_messages(request.user)
    page = fallback_page(fate, with_text=may_read, before=form.cleaned_data["before"])
    context = {**_context(page, fate), "may_read": may_read}
    return render(request, "dashboard/fallback.html", context)


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def fallback_json(request: SignedInRequest) -> HttpResponse:
    """The same for programs, without texts; `before` is the last page's `next_before`."""
    form = FallbackForm(request.GET)
    if not form.is_valid():
        return JsonResponse({"errors": form.errors}, status=400)
    data = form.cleaned_data
    fate = Fate(data["fate"] or Fate.CHANGED)
    shown = data["limit"] or SHOWN
    page = fallback_page(fate, with_text=False, before=data["before"], shown=shown)
    return JsonResponse(
        {
            "counts": {str(each): count for each, count in page.counts.items()},
            "counts_are_of_newest": page.total if page.is_capped else None,
            "fate": fate,
            "verdicts": [_row(row) for row in page.rows],
            "next_before": page.next_before and str(page.next_before),
        }
    )


def _row(row: FallbackRow) -> dict[str, Any]:
    is_judged = row.new_source is not None
    since = {"label": row.new_label, "action": row.new_action, "source": row.new_source}
    return {
        "message_id": str(row.message_id),
        "fallback": {
            "label": row.label,
            "action": row.action,
            "reasons": list(row.reasons),
            "at": row.at,
        },
        "since": {**since, "at": row.new_at} if is_judged else None,
        "message_url": f"/api/v1/messages/{row.message_id}",
        "review_url": reverse("review:item", args=[row.message_id]) if row.is_item else None,
    }


def _context(page: FallbackPage, fate: Fate) -> dict[str, Any]:
    return {
        "page": page,
        "fate": fate,
        "fates": [(each.value, FATE_WORDS[each], page.counts[each]) for each in Fate],
        "moves": [
            (
                Label(label),
                Action(action),
                new_label and Label(new_label),
                Action(new_action),
                count,
            )
            for label, action, new_label, new_action, count in page.moves
        ],
        "rows": [
            (
                row,
                Label(row.label),
                Action(row.action),
                row.new_label and Label(row.new_label),
                row.new_action and Action(row.new_action),
                row.new_source and SOURCE_WORDS[Source(row.new_source)],
            )
            for row in page.rows
        ],
    }
