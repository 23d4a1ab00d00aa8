"""Who may do what, of everything there is: each address is in one of these tables, or a test fails.

The tables name roles, not permissions, so that a change to what a role may do shows here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from apps.accounts.models import Role
from apps.alerts.services import ensure_rules
from apps.core.realtime import CLOSE_FORBIDDEN
from moderation_site.routing import websocket_urlpatterns
from tests.factories import UserFactory, active_release, default_policy_version

PATIENCE_S = 30.0
ANONYMOUS = "anonymous"
ALL = {*Role.values}
ANYBODY = {ANONYMOUS, *ALL}
REVIEWERS = {Role.MODERATOR, Role.LEAD, Role.ADMIN}
LEADS = {Role.LEAD, Role.ADMIN}
OPERATORS = {Role.OPERATOR, Role.ADMIN}
ADMINS = {Role.ADMIN}

PAGES: dict[str, dict[str, set[str]]] = {
    "home": {"GET": ALL, "POST": ALL},
    "accounts:sign-in": {"GET": ANYBODY, "POST": ANYBODY},
    "accounts:sign-out": {"POST": ANYBODY},
    "accounts:theme": {"POST": ANYBODY},
    "accounts:language": {"POST": ANYBODY},
    "api:docs": {"GET": ANYBODY},
    "dashboard:operate": {"GET": ALL},
    "dashboard:figures": {"GET": ALL},
    "dashboard:feed": {"GET": ALL},
    "dashboard:events": {"GET": ALL},
    "dashboard:moment": {"GET": ALL},
    "dashboard:history": {"GET": ALL},
    "dashboard:fallback": {"GET": ALL},
    "dashboard:fallback-json": {"GET": ALL},
    "dashboard:controls": {"GET": ALL},
    "dashboard:progress": {"GET": ALL},
    "dashboard:act-on-replica": {"POST": OPERATORS},
    "dashboard:act-on-breaker": {"POST": OPERATORS},
    "dashboard:act-on-claiming": {"POST": OPERATORS},
    "dashboard:act-on-judging": {"POST": OPERATORS},
    "dashboard:act-on-model": {"POST": OPERATORS},
    "dashboard:change-limits": {"POST": OPERATORS},
    "alerts:alerts": {"GET": ALL},
    "alerts:change": {"POST": OPERATORS},
    "alerts:silence": {"POST": OPERATORS},
    "policies:list": {"GET": ALL},
    "policies:policy": {"GET": ALL},
    "policies:state": {"GET": ALL},
    "policies:create": {"POST": ADMINS},
    "policies:publish": {"POST": ADMINS},
    "policies:assign": {"POST": ADMINS},
    "policies:unassign": {"POST": ADMINS},
    "console:keys": {"GET": ADMINS, "POST": ADMINS},
    "console:revoke": {"POST": ADMINS},
    "console:audit": {"GET": LEADS},
    "console:erasures": {"GET": ADMINS},
    "console:erasure": {"GET": ADMINS},
    "console:find-sender": {"POST": ADMINS},
    "console:erase-sender": {"GET": ADMINS, "POST": ADMINS},
    "console:erase-person": {"POST": ADMINS},
    "review:queue": {"GET": REVIEWERS},
    "review:rows": {"GET": REVIEWERS},
    "review:next": {"POST": REVIEWERS},
    "review:look-again": {"POST": REVIEWERS},
    "review:item": {"GET": REVIEWERS},
    "review:look": {"GET": REVIEWERS},
    "review:spans": {"GET": REVIEWERS},
    "review:conversation": {"GET": REVIEWERS},
    "review:take": {"POST": REVIEWERS},
    "review:decide": {"POST": REVIEWERS},
    "review:decide-appeal": {"POST": REVIEWERS},
    "review:recall": {"POST": REVIEWERS},
    "review:skip": {"POST": REVIEWERS},
    "review:escalate": {"POST": REVIEWERS},
    "review:ask": {"POST": REVIEWERS},
    "review:extend": {"POST": REVIEWERS},
    "review:release": {"POST": REVIEWERS},
    "review:save-view": {"POST": REVIEWERS},
    "review:forget-view": {"POST": REVIEWERS},
    "review:keys": {"GET": REVIEWERS, "POST": REVIEWERS},
    "review:reset-keys": {"POST": REVIEWERS},
    "review:wave": {"GET": REVIEWERS},
    "review:take-out": {"POST": REVIEWERS},
    "review:revealed": {"POST": REVIEWERS},
    "review:wellbeing": {"GET": REVIEWERS, "POST": REVIEWERS},
    "review:reminder": {"GET": REVIEWERS},
    "review:put-off": {"POST": REVIEWERS},
    "review:range": {"GET": REVIEWERS},
    "review:decide-range": {"POST": REVIEWERS},
    "review:undo-range": {"POST": REVIEWERS},
    "review:figures": {"GET": REVIEWERS},
    "review:appeals": {"GET": REVIEWERS},
    "review:enter-appeal": {"GET": REVIEWERS, "POST": REVIEWERS},
    "review:agreement": {"GET": REVIEWERS},
    "review:agreement-figures": {"GET": REVIEWERS},
    "review:check-shares": {"POST": LEADS},
    "review:settle": {"POST": LEADS},
    "review:make-gold": {"POST": LEADS},
    "review:retire-gold": {"POST": LEADS},
    "review:history": {"GET": REVIEWERS},
    # Their own; another's takes a lead, which the service asks.
    "review:reverse": {"POST": REVIEWERS},
    "review:undo": {"POST": REVIEWERS},
}
SOCKETS: dict[str, set[str]] = {
    "ws/operate/": ALL,
    "ws/policies/": ALL,
    "ws/review/": REVIEWERS,
    # Refuses everybody.
    "": set(),
}
# What stands in for an address's variable parts: of the right kind, and of nothing that there is.
ARGUMENTS = {"int": 987_654_321, "slug": "nothing"}


class Page(NamedTuple):
    """One address. `url` has its variable parts filled in."""

    name: str
    url: str
    view: Any


def pages() -> Iterator[Page]:
    return _pages(get_resolver(), "")


def _pages(resolver: URLResolver, space: str) -> Iterator[Page]:
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            name = f"{space}{entry.namespace}:" if entry.namespace else space
            yield from _pages(entry, name)
        else:
            yield _page(entry, space)


def _page(entry: URLPattern, space: str) -> Page:
    kinds = {
        name: type(converter).__name__.removesuffix("Converter").lower()
        for name, converter in entry.pattern.converters.items()
    }
    name = f"{space}{entry.name}"
    url = reverse(name, kwargs={part: ARGUMENTS[kind] for part, kind in kinds.items()})
    return Page(name, url, entry.callback)


@pytest.fixture
def something(transactional_db: None) -> None:
    """What a page can't do without."""
    default_policy_version()
    active_release()
    ensure_rules()


def someone(role: str) -> Client:
    client = Client()
    if role != ANONYMOUS:
        client.force_login(UserFactory(role=role))
    return client


def test_the_table_has_every_page_and_no_other() -> None:
    assert {page.name for page in pages()} == set(PAGES)


def test_every_form_needs_its_token() -> None:
    assert [page.name for page in pages() if getattr(page.view, "csrf_exempt", False)] == []


@pytest.mark.parametrize("role", sorted(ANYBODY))
@pytest.mark.usefixtures("something")
def test_pages_are_open_to_these_roles_only(role: str) -> None:
    found = {}
    client = someone(role)
    # Signing out, which ends the session, after everything else.
    for page in sorted(pages(), key=lambda page: page.name == "accounts:sign-out"):
        for method in ("GET", "POST"):
            answer = client.generic(method, page.url)
            assert answer.status_code < 500, (page.name, method)
            found[page.name, method] = _fate(answer)
    wanted = {
        (name, method): _wanted(PAGES[name].get(method), role)
        for name in PAGES
        for method in ("GET", "POST")
    }
    assert found == wanted


def _wanted(roles: set[str] | None, role: str) -> str:
    if roles is None:
        return "no such method"
    if role in roles:
        return "open"
    return "sign in" if role == ANONYMOUS else "forbidden"


def _fate(answer: HttpResponse) -> str:
    if answer.status_code == 405:
        return "no such method"
    if answer.status_code == 403:
        return "forbidden"
    asks = f"{reverse(settings.LOGIN_URL)}?next="
    return "sign in" if answer.get("Location", "").startswith(asks) else "open"


def test_the_table_has_every_websocket() -> None:
    assert {str(entry.pattern).lstrip("^") for entry in websocket_urlpatterns} == set(SOCKETS)


@pytest.mark.parametrize("role", sorted(ANYBODY))
@pytest.mark.parametrize("path", sorted(set(SOCKETS) - {""}))
@pytest.mark.usefixtures("something", "stores")
async def test_websockets_speak_to_these_roles_only(role: str, path: str) -> None:
    from moderation_site.asgi import sockets

    client = await sync_to_async(someone)(role)
    cookie = client.cookies.get(settings.SESSION_COOKIE_NAME)
    headers = [(b"origin", b"http://localhost"), (b"host", b"localhost")]
    if cookie is not None:
        headers.append((b"cookie", f"{cookie.key}={cookie.value}".encode()))
    scope = {"type": "websocket", "path": f"/{path}", "query_string": b"", "headers": headers}
    socket = ApplicationCommunicator(sockets, {**scope, "subprotocols": []})
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE_S))["type"] == "websocket.accept"
    first = await socket.receive_output(PATIENCE_S)
    if role in SOCKETS[path]:
        assert first["type"] == "websocket.send"
    else:
        assert (first["type"], first["code"]) == ("websocket.close", CLOSE_FORBIDDEN)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(PATIENCE_S)
