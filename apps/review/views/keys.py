"""The page on which somebody changes the keys of the review page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.review import selectors
from apps.review.keys import DEFAULTS, GROUPS, KeyRefusedError
from apps.review.services import keymaps


@require_http_methods(["GET", "POST"])
@never_cache
@requires(Permission.REVIEW)
def show_keys(request: SignedInRequest) -> HttpResponse:
    """The keys as they are; posted, they are changed all at once or not at all."""
    if request.method == "GET":
        return _page(request, selectors.keys_of(request.user))
    wanted = {name: request.POST.get(name, "")[:8] for name in DEFAULTS}
    try:
        keymaps.save_keys(request.user, wanted)
    except KeyRefusedError as error:
        return _page(request, wanted, error.problems)
    messages.success(request, _("Your keys are saved."))
    return redirect("review:keys")


@require_POST
@requires(Permission.REVIEW)
def reset(request: SignedInRequest) -> HttpResponse:
    keymaps.reset_keys(request.user)
    messages.success(request, _("All keys are as they were made."))
    return redirect("review:keys")


def _page(
    request: SignedInRequest,
    keys: Mapping[str, str],
    problems: Mapping[str, str | Promise] | None = None,
) -> HttpResponse:
    problems = problems or {}
    groups = [(group.words, [_row(c.name, c.words, keys, problems) for c in group.commands])
              for group in GROUPS]  # fmt: skip
    context = {"groups": groups, "problems": problems}
    return render(request, "review/keys.html", context, status=400 if problems else 200)


def _row(
    name: str,
    words: str | Promise,
    keys: Mapping[str, str],
    problems: Mapping[str, str | Promise],
) -> dict[str, Any]:
    return {
        "name": name,
        "words": words,
        "key": keys.get(name, ""),
        "default": DEFAULTS[name],
        "problem": problems.get(name, ""),
    }
