"""The page on which somebody chooses what they are spared."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.policies.models import Label
from apps.review import selectors
from apps.review.models.wellbeing import UNDETERMINED
from apps.review.services.wellbeing import save_blurred


@require_http_methods(["GET", "POST"])
@never_cache
@requires(Permission.REVIEW)
def show(request: SignedInRequest) -> HttpResponse:
    """The choice as it is; posted, it is changed."""
    if request.method == "POST":
        save_blurred(request.user, request.POST.getlist("blurred"))
        messages.success(request, _("Saved."))
        return redirect("review:wellbeing")
    choices = [*Label.choices, (UNDETERMINED, _("undetermined"))]
    context = {"choices": choices, "blurred": selectors.blurred_for(request.user)}
    return render(request, "review/wellbeing.html", context)
