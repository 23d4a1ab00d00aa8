"""The alerts page: rules, what fires, what fired, and silence."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, HttpResponseBadRequest
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.alerts import selectors
from apps.alerts.figures import Figure
from apps.alerts.forms import RuleForm, SilenceForm
from apps.alerts.models import AlertRule
from apps.alerts.services import SILENCES_MIN, change_rule, ensure_rules, silence
from apps.dashboard.views import LIVE_URL, STALE_AFTER_S

UNPROCESSABLE = 422


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def alerts(request: SignedInRequest) -> HttpResponse:
    ensure_rules()
    return _page(request)


@require_POST
@requires(Permission.OPERATE_ACT)
def change(request: SignedInRequest, figure: str) -> HttpResponse:
    rule = get_object_or_404(AlertRule, figure=figure)
    form = RuleForm(rule, request.POST)
    if not form.is_valid():
        return _page(request, form, figure, status=UNPROCESSABLE)
    change_rule(request.user, Figure(figure), **form.cleaned_data)
    messages.success(request, _("The rule is in force."))
    return redirect("alerts:alerts")


@require_POST
@requires(Permission.OPERATE_ACT)
def be_silent(request: SignedInRequest, figure: str) -> HttpResponse:
    rule = get_object_or_404(AlertRule, figure=figure)
    form = SilenceForm(request.POST)
    if not form.is_valid():
        # Our page can't send this.
        return HttpResponseBadRequest()
    silence(request.user, Figure(rule.figure), minutes=form.cleaned_data["minutes"])
    return redirect("alerts:alerts")


def _page(
    request: SignedInRequest, sent: RuleForm | None = None, figure: str = "", *, status: int = 200
) -> HttpResponse:
    context = {
        "rules": selectors.rule_views(sent, figure),
        "history": selectors.history(),
        "silences": SILENCES_MIN,
        "has_webhook": bool(settings.ALERT_WEBHOOK_URL),
        "mail_addresses": len(settings.ALERT_EMAIL_TO),
        "now": timezone.now(),
        "live_url": LIVE_URL,
        "live_stale_after_s": STALE_AFTER_S,
    }
    return render(request, "alerts/page.html", context, status=status)
