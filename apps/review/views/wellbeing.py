"""What somebody chooses to be spared, what they saw, and the reminder of a break."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission, may
from apps.policies.models import Label
from apps.review import exposure
from apps.review.forms import BREAK_MINUTES, BREAK_SEVERE, CareForm, ItemsForm, filters_of
from apps.review.models.wellbeing import UNDETERMINED
from apps.review.services import wellbeing
from apps.review.views.answers import BAD_REQUEST, to_queue


@require_http_methods(["GET", "POST"])
@never_cache
@requires(Permission.REVIEW)
def show(request: SignedInRequest) -> HttpResponse:
    """The choice as it is, and the figures; posted, the choice is changed."""
    if request.method == "POST":
        form = CareForm(request.POST)
        if not form.is_valid():
            return HttpResponse(status=BAD_REQUEST)
        wellbeing.save_care(request.user, form.care())
        messages.success(request, _("Saved."))
        return redirect("review:wellbeing")
    now = timezone.now()
    is_lead = may(request.user, Permission.REVIEW_LEAD)
    context = {
        "choices": [*Label.choices, (UNDETERMINED, _("undetermined"))],
        "care": exposure.care_of(request.user),
        "break_minutes": BREAK_MINUTES,
        "break_severe": BREAK_SEVERE,
        "own": exposure.own_figures(request.user, now=now),
        "team": exposure.team_figures(request.user, now=now) if is_lead else None,
        "put_off_min": int(wellbeing.PUT_OFF.total_seconds() // 60),
        "pause_min": int(exposure.PAUSE.total_seconds() // 60),
        "keep_days": wellbeing.KEEP_DAYS,
    }
    return render(request, "review/wellbeing.html", context)


@require_POST
@requires(Permission.REVIEW)
def revealed(request: SignedInRequest) -> HttpResponse:
    """The page shows texts that were blurred."""
    form = ItemsForm({"item": request.POST.getlist("item")})
    if not form.is_valid():
        return HttpResponse(status=BAD_REQUEST)
    wellbeing.count_shown(request.user, form.cleaned_data["item"], is_revealed=True)
    return HttpResponse(status=204)


@require_GET
@never_cache
@requires(Permission.REVIEW)
def remind(request: SignedInRequest) -> HttpResponse:
    """The notice of a break that is due; nothing when none is."""
    due = exposure.reminder(request.user)
    if due is None:
        return HttpResponse(status=204)
    filters = filters_of(request.GET)
    context = {
        "due": due,
        "is_mild": filters.label == Label.AD,
        "put_off_min": int(wellbeing.PUT_OFF.total_seconds() // 60),
    }
    return render(request, "review/reminder.html", context)


@require_POST
@requires(Permission.REVIEW)
def put_off(request: SignedInRequest) -> HttpResponse:
    """Remind later."""
    wellbeing.put_off_break(request.user)
    if request.headers.get("X-Fragment") == "reminder":
        return HttpResponse(status=204)
    return to_queue(request)
