"""Appeals: deciding one on the desk, entering one by hand, and how often they are overturned."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.audit.services import Actor
from apps.review import appeal_figures
from apps.review.errors import ReviewError
from apps.review.forms import AppealDecisionForm, AppealForm
from apps.review.models import AppealState, Decision
from apps.review.services import appeals
from apps.review.services.subjects import Subject
from apps.review.views.answers import answers_refusals, done, invalid
from apps.review.wording import by_whom, refusal


@require_POST
@requires(Permission.REVIEW)
@answers_refusals
def decide(request: SignedInRequest, item_id: int) -> HttpResponse:
    form = AppealDecisionForm(request.POST)
    if not form.is_valid():
        return invalid(request, form, item_id)
    data = form.cleaned_data
    appeal = appeals.decide_appeal(
        request.user,
        item_id,
        token=data["token"],
        version=data["version"],
        choice=form.choice(),
    )
    is_upheld = appeal.state == AppealState.UPHELD
    return done(request, _("Appeal upheld as it was.") if is_upheld else _("Appeal overturned."))


@require_http_methods(["GET", "POST"])
@never_cache
@requires(Permission.REVIEW)
def enter(request: SignedInRequest, decision_id: int) -> HttpResponse:
    """A form for an appeal that came by mail, say, against a decision that stands."""
    decision = (
        Decision.objects.select_related("item__message", "moderator").filter(pk=decision_id).first()
    )
    if decision is None:
        raise Http404
    form = AppealForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        return _entered(request, decision, form)
    context = {"form": form, "decision": decision, "by": by_whom(decision)}
    return render(request, "review/enter_appeal.html", context)


def _entered(request: SignedInRequest, decision: Decision, form: AppealForm) -> HttpResponse:
    try:
        opened = appeals.open_appeal(
            Subject(message_id=decision.item_id),
            appellant=form.cleaned_data["appellant"],
            text=form.cleaned_data["text"],
            actor=Actor.of_user(request.user),
            entered_by=request.user,
        )
    except ReviewError as error:
        messages.warning(request, " ".join(refusal(error)))
        return redirect("review:history")
    words = _("The appeal waits for another moderator.")
    messages.success(request, words if opened.is_new else _("It had been appealed before."))
    return redirect("review:appeals")


@require_GET
@never_cache
@requires(Permission.REVIEW)
def show(request: SignedInRequest) -> HttpResponse:
    """The newest appeals, and how often they are overturned."""
    now = timezone.now()
    context = {
        "days": appeal_figures.DAYS,
        "tables": appeal_figures.overturn_tables(now=now),
        "appeals": appeal_figures.newest_appeals(),
    }
    return render(request, "review/appeals.html", context)
