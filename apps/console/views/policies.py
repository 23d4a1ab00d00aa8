"""Policies: thresholds beside the scores they cut, lists, versions, the groups that follow."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.chat.assignments import assign_group
from apps.chat.models import Group
from apps.console import selectors
from apps.console.forms import AssignForm, NewPolicyForm, PublishForm
from apps.console.lists import lists_panel
from apps.console.thresholds import rows
from apps.policies.errors import NameTakenError, RuleError, VersionConflictError
from apps.policies.models import Policy
from apps.policies.services import (
    create_policy,
    limits_of,
    newest_version,
    publish_version,
    rules_listed,
)

UNPROCESSABLE, CONFLICT = 422, 409
LIVE_URL = "/ws/policies/"


@require_GET
@never_cache
@requires(Permission.POLICY_VIEW)
def index(request: SignedInRequest) -> HttpResponse:
    """The default policy's page."""
    return redirect("policies:policy", Policy.objects.get(is_default=True).pk)


@require_GET
@never_cache
@requires(Permission.POLICY_VIEW)
def policy(request: SignedInRequest, policy_id: int) -> HttpResponse:
    return _page(request, get_object_or_404(Policy, pk=policy_id))


@require_GET
@never_cache
@requires(Permission.POLICY_VIEW)
def state(request: SignedInRequest, policy_id: int) -> HttpResponse:
    """What stands now: refetched when somebody publishes or moves a group."""
    found = get_object_or_404(Policy, pk=policy_id)
    seen = request.GET.get("seen", "")
    return render(request, "policies/state.html", {**_state(found), "seen": seen})


@require_POST
@requires(Permission.POLICY_EDIT)
def publish(request: SignedInRequest, policy_id: int) -> HttpResponse:
    found = get_object_or_404(Policy, pk=policy_id)
    form = PublishForm(request.POST)
    if not form.is_valid():
        return _page(request, found, form, status=UNPROCESSABLE)
    data = form.cleaned_data
    try:
        version = publish_version(
            request.user,
            policy_id,
            form.limits(),
            note=data["note"],
            based_on=data["based_on"],
            rules=form.rules(),
        )
    except RuleError:
        # What is wrong with one entry, the form has found.
        form.refuse_more_entries()
        return _page(request, found, form, status=UNPROCESSABLE)
    except VersionConflictError:
        return _page(request, found, form, status=CONFLICT, conflict=True)
    messages.success(request, _("Version %(n)s is in force.") % {"n": version.number})
    return redirect("policies:policy", policy_id)


@require_POST
@requires(Permission.POLICY_EDIT)
def create(request: SignedInRequest) -> HttpResponse:
    form = NewPolicyForm(request.POST)
    if not form.is_valid():
        return _name_refused(request, form)
    data = form.cleaned_data
    try:
        made = create_policy(request.user, name=data["name"], like=data["like"])
    except Policy.DoesNotExist as error:
        raise Http404 from error
    except NameTakenError:
        form.add_error("name", _("Another policy has that name."))
        return _name_refused(request, form)
    return redirect("policies:policy", made.pk)


@require_POST
@requires(Permission.POLICY_EDIT)
def assign(request: SignedInRequest, policy_id: int) -> HttpResponse:
    """Let a group follow this policy."""
    found = get_object_or_404(Policy, pk=policy_id)
    form = AssignForm(request.POST)
    group = _group(form)
    if group is None:
        messages.error(request, _("There is no group with that id."))
        return redirect("policies:policy", policy_id)
    assign_group(request.user, group.pk, None if found.is_default else found.pk)
    messages.success(
        request, _("%(group)s follows %(policy)s now.") % {"group": group, "policy": found}
    )
    return redirect("policies:policy", policy_id)


@require_POST
@requires(Permission.POLICY_EDIT)
def unassign(request: SignedInRequest, policy_id: int) -> HttpResponse:
    """Let a group follow the default policy again."""
    group = _group(AssignForm(request.POST))
    if group is None:
        raise Http404
    assign_group(request.user, group.pk, None)
    messages.success(request, _("%(group)s follows the default policy now.") % {"group": group})
    return redirect("policies:policy", policy_id)


def _group(form: AssignForm) -> Group | None:
    if not form.is_valid():
        return None
    return Group.objects.filter(external_id=form.cleaned_data["group"]).first()


def _name_refused(request: SignedInRequest, form: NewPolicyForm) -> HttpResponse:
    default = Policy.objects.get(is_default=True)
    return _page(request, default, status=UNPROCESSABLE, new=form)


def _page(
    request: SignedInRequest,
    policy: Policy,
    form: PublishForm | None = None,
    *,
    status: int = 200,
    conflict: bool = False,
    new: NewPolicyForm | None = None,
) -> HttpResponse:
    standing = _state(policy)
    context = {
        **standing,
        "policies": selectors.policies(),
        "form": form,
        "conflict": conflict,
        "new": new or NewPolicyForm(),
        "rows": rows(limits_of(standing["newest"]), selectors.histograms(), form),
        "lists": lists_panel(rules_listed(standing["newest"]), form),
        "elsewhere": selectors.groups_elsewhere(policy),
        "live_url": LIVE_URL,
        "section": "policies",
    }
    return render(request, "policies/page.html", context, status=status)


def _state(policy: Policy) -> dict[str, Any]:
    groups = selectors.groups_of(policy)
    return {
        "policy": policy,
        "newest": newest_version(policy),
        "history": selectors.history(policy),
        "groups": list(groups[: selectors.GROUPS_SHOWN]),
        "group_count": groups.count(),
    }
