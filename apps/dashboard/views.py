"""The operator's page: rendered whole, then kept fresh by refetched fragments."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.accounts.access import SignedInRequest, requires
from apps.accounts.permissions import Permission
from apps.dashboard import feed
from apps.dashboard.consumers import figures_topic
from apps.dashboard.events import read_events
from apps.dashboard.forms import FeedFilter, WindowForm
from apps.dashboard.history import read_window
from apps.dashboard.moments import read_moment
from apps.dashboard.presenting import figures_context, present_moment

LIVE_URL = "/ws/operate/"
# Figures are announced every second: longer silence means that they don't come through.
STALE_AFTER_S = 15


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def operate(request: SignedInRequest) -> HttpResponse:
    context = {
        "live_url": f"{LIVE_URL}?lang={get_language()}",
        "live_stale_after_s": STALE_AFTER_S,
        "figures_topic": figures_topic(get_language()),
        "may_read": feed.may_read_messages(request.user),
        **figures_context(),
        **_feed(request),
    }
    return render(request, "dashboard/operate.html", context)


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def figures(request: SignedInRequest) -> HttpResponse:
    """Banner, tiles, tables: what changes every second, in one fragment."""
    return render(request, "dashboard/figures.html", figures_context())


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def verdict_feed(request: SignedInRequest) -> HttpResponse:
    return render(request, "dashboard/feed.html", _feed(request))


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def history(request: SignedInRequest) -> JsonResponse:
    """The window between the Unix seconds `from` and `to`; by default the last minutes."""
    form = WindowForm(request.GET)
    if not form.is_valid():
        return JsonResponse({"errors": form.errors}, status=400)
    since, until = form.window(now=timezone.now())
    return JsonResponse(read_window(since, until, now=timezone.now()).to_json())


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def events(request: SignedInRequest) -> JsonResponse:
    """What happened in the window between the Unix seconds `from` and `to`."""
    form = WindowForm(request.GET)
    if not form.is_valid():
        return JsonResponse({"errors": form.errors}, status=400)
    since, until = form.window(now=timezone.now())
    return JsonResponse({"events": [event.to_json() for event in read_events(since, until)]})


@require_GET
@never_cache
@requires(Permission.OPERATE_VIEW)
def moment(request: SignedInRequest) -> HttpResponse:
    """The slowest batches between the Unix seconds `from` and `to`, as a page or a part of one."""
    form = WindowForm(request.GET)
    if not form.is_valid():
        return HttpResponseBadRequest()
    since, until = form.window(now=timezone.now())
    may_read = feed.may_read_messages(request.user)
    found = read_moment(since, until, now=timezone.now(), with_messages=may_read)
    context = {
        "moment": present_moment(found),
        "may_read": may_read,
        "live_url": LIVE_URL,
        "live_stale_after_s": STALE_AFTER_S,
    }
    is_part = bool(request.headers.get("HX-Request"))
    return render(request, f"dashboard/moment{'_part' if is_part else ''}.html", context)


def _feed(request: SignedInRequest) -> dict[str, Any]:
    chosen = FeedFilter.of(request.GET)
    return {
        "filter": chosen,
        "rows": feed.latest_rows(
            with_text=feed.may_read_messages(request.user),
            label=chosen.label,
            action=chosen.action,
            source=chosen.source,
            group=chosen.group,
        ),
    }
