"""Acting on the machinery: each action asks once, is kept, and shows how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.dashboard.control_forms import (
    BreakerForm,
    ClaimingForm,
    JudgingForm,
    LimitsForm,
    ModelForm,
    ReplicaForm,
)
from apps.dashboard.controls import WISH_WORDS, ControlsPage, controls_page
from apps.dashboard.views import LIVE_URL, STALE_AFTER_S
from apps.scoring.controls import (
    BreakerWish,
    Claiming,
    Judging,
    Standing,
    UnknownTargetError,
    set_breaker,
    set_claiming,
    set_judging,
    set_limits,
    set_model,
    set_standing,
)
from apps.scoring.models import ModelWish

UNPROCESSABLE = 422


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def controls(request: SignedInRequest) -> HttpResponse:
    found = controls_page()
    return _page(request, found, _limits_form(found))


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def progress(request: SignedInRequest) -> HttpResponse:
    """What changes by itself: states, and how many workers have carried a wish out."""
    return render(request, "dashboard/progress.html", {"page": controls_page()})


@require_POST
@requires(Permission.OPERATE_ACT)
def act_on_replica(request: SignedInRequest) -> HttpResponse:
    """Drain, eject, readmit."""

    def act(data: dict[str, Any]) -> None:
        set_standing(request.user, data["target"], Standing(data["wish"]))

    return _act(request, ReplicaForm(request.POST), act)


@require_POST
@requires(Permission.OPERATE_ACT)
def act_on_breaker(request: SignedInRequest) -> HttpResponse:
    """Hold open, hold closed, reset."""

    def act(data: dict[str, Any]) -> None:
        set_breaker(request.user, data["target"], BreakerWish(data["wish"]))

    return _act(request, BreakerForm(request.POST), act)


@require_POST
@requires(Permission.OPERATE_ACT)
def act_on_claiming(request: SignedInRequest) -> HttpResponse:
    """Pause, resume."""

    def act(data: dict[str, Any]) -> None:
        set_claiming(request.user, Claiming(data["wish"]))

    return _act(request, ClaimingForm(request.POST), act)


@require_POST
@requires(Permission.OPERATE_ACT)
def act_on_judging(request: SignedInRequest) -> HttpResponse:
    """Degrade to the lists, go back to the model."""

    def act(data: dict[str, Any]) -> None:
        set_judging(request.user, Judging(data["wish"]))

    return _act(request, JudgingForm(request.POST), act)


@require_POST
@requires(Permission.OPERATE_ACT)
def act_on_model(request: SignedInRequest) -> HttpResponse:
    """Load, unload."""

    def act(data: dict[str, Any]) -> None:
        set_model(request.user, data["target"], ModelWish(data["wish"]))

    return _act(request, ModelForm(request.POST), act)


@require_POST
@requires(Permission.OPERATE_ACT)
def change_limits(request: SignedInRequest) -> HttpResponse:
    form = LimitsForm(request.POST)
    if not form.is_valid():
        return _page(request, controls_page(), form, status=UNPROCESSABLE)
    set_limits(request.user, **form.cleaned_data)
    messages.success(request, _("The limits are asked for."))
    return redirect("dashboard:controls")


def _act(
    request: SignedInRequest, form: forms.Form, act: Callable[[dict[str, Any]], None]
) -> HttpResponse:
    if not form.is_valid():
        # Our page can't send this.
        return HttpResponseBadRequest()
    data = form.cleaned_data
    try:
        act(data)
    except UnknownTargetError:
        messages.error(request, _("There is nothing of that name."))
    else:
        word = WISH_WORDS[data["wish"]]
        messages.success(request, _("Asked for: %(action)s.") % {"action": word})
    return redirect("dashboard:controls")


def _limits_form(found: ControlsPage) -> LimitsForm:
    return LimitsForm(
        initial={
            "largest_batch": found.largest_batch,
            "most_in_flight_batches": found.most_in_flight_batches,
        }
    )


def _page(
    request: SignedInRequest, found: ControlsPage, form: LimitsForm, *, status: int = 200
) -> HttpResponse:
    context = {
        "page": found,
        "form": form,
        "live_url": LIVE_URL,
        "live_stale_after_s": STALE_AFTER_S,
    }
    return render(request, "dashboard/controls.html", context, status=status)
