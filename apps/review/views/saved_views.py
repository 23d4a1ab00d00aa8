"""Keeping a part of the queue under a name, and dropping it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.core.templatetags.hostile import marked_plain
from apps.review.forms import ViewForm, filters_of
from apps.review.services import saved_views
from apps.review.views.answers import to_queue


@require_POST
@requires(Permission.REVIEW)
def save(request: SignedInRequest) -> HttpResponse:
    """Save what the address says, under the name in the form."""
    form = ViewForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("A view needs a name of at most 40 characters."))
        return to_queue(request)
    try:
        view = saved_views.save_view(
            request.user, form.cleaned_data["name"], filters_of(request.GET)
        )
    except saved_views.TooManyViewsError:
        text = _("There is room for %(n)s views. Drop one first.") % {"n": saved_views.VIEWS_MOST}
        messages.error(request, text)
    else:
        messages.success(request, _("View saved: %(name)s") % {"name": marked_plain(view.name)})
    return to_queue(request)


@require_POST
@requires(Permission.REVIEW)
def forget(request: SignedInRequest, view_id: int) -> HttpResponse:
    saved_views.forget_view(request.user, view_id)
    messages.success(request, _("View dropped."))
    return to_queue(request)
