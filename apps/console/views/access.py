"""API keys and the audit log."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.models import ApiKey
from apps.accounts.permissions import Permission
from apps.console import selectors
from apps.console.forms import AuditFilterForm, NewKeyForm
from apps.console.keys import create_key, revoke_key

UNPROCESSABLE = 422


@require_http_methods(["GET", "POST"])
@never_cache
@requires(Permission.KEYS_EDIT)
def keys(request: SignedInRequest) -> HttpResponse:
    """The list; a posted form makes a key and shows its secret this once."""
    if request.method == "GET":
        return _keys_page(request, NewKeyForm())
    form = NewKeyForm(request.POST)
    if not form.is_valid():
        return _keys_page(request, form, status=UNPROCESSABLE)
    data = form.cleaned_data
    key, secret = create_key(
        request.user, name=data["name"], expires_at=data["expires_on"], may_erase=data["may_erase"]
    )
    return _keys_page(request, NewKeyForm(), made=key, secret=secret)


@require_POST
@requires(Permission.KEYS_EDIT)
def revoke(request: SignedInRequest, key_id: int) -> HttpResponse:
    try:
        key = revoke_key(request.user, key_id)
    except ApiKey.DoesNotExist as error:
        raise Http404 from error
    messages.success(request, _("%(name)s is revoked.") % {"name": key.name})
    return redirect("console:keys")


def _keys_page(
    request: SignedInRequest,
    form: NewKeyForm,
    *,
    status: int = 200,
    made: ApiKey | None = None,
    secret: str = "",
) -> HttpResponse:
    context = {
        "form": form,
        "keys": ApiKey.objects.select_related("created_by").order_by("-pk"),
        "made": made,
        "secret": secret,
        "now": timezone.now(),
        "policies": selectors.policies(),
        "section": "keys",
    }
    return render(request, "console/keys.html", context, status=status)


@require_GET
@never_cache
@requires(Permission.AUDIT_VIEW)
def audit(request: SignedInRequest) -> HttpResponse:
    """Who changed what, newest first."""
    form = AuditFilterForm(request.GET)
    form.is_valid()
    data = form.cleaned_data
    events = selectors.audit_events(
        before_id=data.get("before"), action=data.get("action", ""), actor=data.get("actor", "")
    )
    context = {
        "form": form,
        "events": events[: selectors.AUDIT_ROWS],
        "goes_on": len(events) > selectors.AUDIT_ROWS,
        "policies": selectors.policies(),
        "section": "audit",
    }
    return render(request, "console/audit.html", context)
