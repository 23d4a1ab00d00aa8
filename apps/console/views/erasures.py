"""Erasing a sender by hand: what would go, their id once more, how far it came, those so far."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.chat.models import Erasure, Sender
from apps.console import selectors
from apps.console.forms import BeforeForm, ConfirmErasureForm, FindSenderForm
from apps.console.views.access import UNPROCESSABLE
from apps.review import erasure_facts
from apps.review.services.erasure import request_erasure

# Batches rest as long as they took, some 0.2 s: this long without one, something is in the way.
STALLED_S = 30.0


@require_GET
@never_cache
@requires(Permission.ERASE)
def show(request: SignedInRequest) -> HttpResponse:
    """The erasures so far, and a form that looks for a sender."""
    return _list_page(request, FindSenderForm())


def _list_page(
    request: SignedInRequest, find: FindSenderForm, *, status: int = 200
) -> HttpResponse:
    form = BeforeForm(request.GET)
    form.is_valid()
    found = erasure_facts.erasures(before_id=form.cleaned_data.get("before"))
    listed = found[: erasure_facts.ERASURES_PAGE]
    context = {
        "find": find,
        "erasures": listed,
        "is_moving": any(one.finished_at is None for one in listed),
        "goes_on": len(found) > erasure_facts.ERASURES_PAGE,
    }
    if request.headers.get("X-Fragment") == "erasures":
        return render(request, "console/erasure_list.html", context)
    return _page(request, "console/erasures.html", context, status=status)


@require_POST
@requires(Permission.ERASE)
def find(request: SignedInRequest) -> HttpResponse:
    """Who is known by an id. In the body, since addresses are kept in logs."""
    form = FindSenderForm(request.POST)
    if not form.is_valid():
        return _list_page(request, form, status=UNPROCESSABLE)
    typed = form.cleaned_data["sender"]
    for external_id in dict.fromkeys((typed, typed.strip())):
        sender = Sender.objects.filter(external_id=external_id, erased_at=None).first()
        if sender is not None:
            return redirect("console:erase-sender", sender.pk)
        if external_id and not erasure_facts.preview(external_id, None).counts.is_nothing:
            return _ask(request, external_id, None, ConfirmErasureForm(external_id))
    form.refuse_unknown()
    return _list_page(request, form, status=UNPROCESSABLE)


@require_http_methods(["GET", "POST"])
@never_cache
@requires(Permission.ERASE)
def sender(request: SignedInRequest, sender_id: int) -> HttpResponse:
    """What erasing a sender takes; a posted form with their id asks for it."""
    found = Sender.objects.filter(pk=sender_id).first()
    if found is None or found.erased_at is not None:
        # A second click, or somebody else was faster: it is the same erasure.
        going = erasure_facts.under_way(sender_id)
        if going is not None:
            return redirect("console:erasure", going.pk)
        if request.method == "GET":
            raise Http404
        messages.info(request, _("This sender is erased already."))
        return redirect("console:erasures")
    return _asked(request, found.external_id, found)


@require_POST
@requires(Permission.ERASE)
def person(request: SignedInRequest) -> HttpResponse:
    """The same for somebody who never wrote, and has reported or appealed."""
    form = FindSenderForm(request.POST)
    if not form.is_valid():
        return _list_page(request, form, status=UNPROCESSABLE)
    return _asked(request, form.cleaned_data["sender"], None)


def _asked(request: SignedInRequest, external_id: str, sender: Sender | None) -> HttpResponse:
    if request.method == "GET":
        return _ask(request, external_id, sender, ConfirmErasureForm(external_id))
    form = ConfirmErasureForm(external_id, request.POST)
    if not form.is_valid():
        return _ask(request, external_id, sender, form, status=UNPROCESSABLE)
    erasure = request_erasure(external_id, by=request.user)
    return redirect("console:erasure", erasure.pk)


def _ask(
    request: SignedInRequest,
    external_id: str,
    sender: Sender | None,
    form: ConfirmErasureForm,
    *,
    status: int = 200,
) -> HttpResponse:
    address = reverse("console:erase-person")
    if sender is not None:
        address = reverse("console:erase-sender", args=[sender.pk])
    context = {
        "external_id": external_id,
        "sender": sender,
        "form": form,
        "address": address,
        "preview": erasure_facts.preview(external_id, sender),
    }
    return _page(request, "console/erase.html", context, status=status)


@require_GET
@never_cache
@requires(Permission.ERASE)
def erasure(request: SignedInRequest, erasure_id: int) -> HttpResponse:
    """How far it has come, or what it took."""
    try:
        progress = erasure_facts.progress(erasure_id)
    except Erasure.DoesNotExist as error:
        raise Http404 from error
    silent_s = (timezone.now() - progress.last_at).total_seconds()
    context = {"progress": progress, "silent_s": silent_s, "is_stalled": silent_s > STALLED_S}
    if request.headers.get("X-Fragment") == "progress":
        return render(request, "console/erasure_progress.html", context)
    return _page(request, "console/erasure.html", context)


def _page(
    request: SignedInRequest, template: str, context: Mapping[str, object], *, status: int = 200
) -> HttpResponse:
    frame = {"policies": selectors.policies(), "section": "erasures"}
    return render(request, template, {**frame, **context}, status=status)
