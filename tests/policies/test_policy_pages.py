"""Policies, keys and the audit log in the browser's terms: forms, conflicts, rights, queries."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.keys import find_key
from apps.accounts.models import ApiKey, Role, User
from apps.audit.models import AuditEvent
from apps.console.selectors import histograms
from apps.policies.judging import Limits
from apps.policies.models import Label, Policy
from apps.policies.services import TUNED, publish_version
from apps.review.models import Decision
from tests.factories import (
    GroupFactory,
    ReviewItemFactory,
    UserFactory,
    VerdictFactory,
    default_policy_version,
)

pytestmark = pytest.mark.django_db

VALUES = {
    "spam_hold": "0.40", "spam_remove": "0.80",
    "toxic_hold": "0.30", "toxic_remove": "0.70",
    "ad_hold": "0.60", "ad_remove": "1",
}  # fmt: skip


@pytest.fixture
def policy() -> Policy:
    return default_policy_version().policy


@pytest.fixture
def console(client: Client, admin: User) -> Client:
    client.force_login(admin)
    return client


def publish(console: Client, policy: Policy, **changes: str) -> Any:
    data = {**VALUES, "based_on": "1", "note": "Quieter", **changes}
    return console.post(f"/policies/{policy.pk}/publish/", data)


def read(client: Client, url: str) -> str:
    response = client.get(url, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def test_published_values_are_in_force_and_in_the_history(console: Client, policy: Policy) -> None:
    assert publish(console, policy).status_code == 302
    html = read(console, f"/policies/{policy.pk}/")
    assert "Version 2 is in force" in html
    assert "Quieter" in html
    assert 'name="spam_hold" value="0.40"' in html


def test_stale_form_is_refused_and_keeps_its_values(
    console: Client, policy: Policy, admin: User
) -> None:
    other = {label: Limits(0.1, 0.2) for label in TUNED}
    publish_version(admin, policy.pk, other, note="", based_on=1)
    response = publish(console, policy)
    html = response.content.decode()
    assert response.status_code == 409
    assert "Version 2 was published while you edited" in html
    assert 'name="spam_hold" value="0.40"' in html
    # Publishing again puts the values on top of what stands now.
    assert 'name="based_on" value="2"' in html
    assert publish(console, policy, based_on="2").status_code == 302


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spam_hold", "0.9"),
        ("spam_hold", "-0.1"),
        ("toxic_remove", "1.1"),
        ("ad_hold", ""),
        ("ad_hold", "nan"),
        ("ad_remove", "inf"),
        ("spam_remove", "a\x00b"),
    ],
)
def test_value_that_cannot_be_used_is_named(
    console: Client, policy: Policy, field: str, value: str
) -> None:
    response = publish(console, policy, **{field: value})
    html = response.content.decode()
    assert response.status_code == 422
    label = field.split("_")[0]
    assert f'id="{label}-error-1"' in html
    assert policy.versions.count() == 1


def test_new_policy_is_made_and_shown(console: Client, policy: Policy) -> None:
    response = console.post("/policies/new/", {"name": "Marketplaces", "like": policy.pk})
    made = Policy.objects.get(name="Marketplaces")
    assert response["Location"] == f"/policies/{made.pk}/"
    again = console.post("/policies/new/", {"name": "MARKETPLACES", "like": policy.pk})
    assert again.status_code == 422
    assert "Another policy has that name." in again.content.decode()


def test_group_is_assigned_by_its_own_id_and_sent_back(console: Client, policy: Policy) -> None:
    group = GroupFactory(name="Boats")
    console.post("/policies/new/", {"name": "Marketplaces", "like": policy.pk})
    made = Policy.objects.get(name="Marketplaces")
    console.post(f"/policies/{made.pk}/groups/", {"group": group.external_id})
    assert "Boats" in read(console, f"/policies/{made.pk}/")
    console.post(f"/policies/{made.pk}/groups/leave/", {"group": group.external_id})
    group.refresh_from_db()
    assert group.policy is None


def test_unknown_group_is_said(console: Client, policy: Policy) -> None:
    response = console.post(f"/policies/{policy.pk}/groups/", {"group": "nobody"}, follow=True)
    assert "There is no group with that id." in response.content.decode()


def test_news_are_shown_beside_an_open_form(console: Client, policy: Policy) -> None:
    publish(console, policy)
    assert "Version 2 is in force now" in read(console, f"/policies/{policy.pk}/state/?seen=1")
    assert "is in force now" not in read(console, f"/policies/{policy.pk}/state/?seen=2")


def test_histogram_counts_each_score_and_what_people_confirmed() -> None:
    confirmed = ReviewItemFactory(verdict__score_spam=0.705)
    Decision.objects.create(item=confirmed, moderator=UserFactory(), action="remove", label="spam")
    VerdictFactory(score_spam=1.0)
    VerdictFactory(score_spam=0.0)
    VerdictFactory(score_ok=None, score_spam=None, score_toxic=None, score_ad=None)
    spam = histograms()[Label.SPAM]
    assert {index: n for index, n in enumerate(spam.scores) if n} == {0: 1, 70: 1, 100: 1}
    assert {index: n for index, n in enumerate(spam.known) if n} == {70: 1}


def test_page_says_how_many_scores_the_thresholds_cut(console: Client, policy: Policy) -> None:
    for score in (0.49, 0.5, 0.7, 0.9):
        VerdictFactory(score_spam=score)
    html = read(console, f"/policies/{policy.pk}/")
    spam = html[html.index('<section class="panel threshold" data-label="spam"') :]
    assert re.findall(r'data-now="(\w+)">(\d+)<', spam)[:2] == [("held", "2"), ("removed", "1")]


def test_empty_history_of_scores_is_said(console: Client, policy: Policy) -> None:
    assert "No scores are stored yet." in read(console, f"/policies/{policy.pk}/")


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "\u202eevil", "z" + "\u0300" * 40])
def test_hostile_names_are_drawn_not_obeyed(console: Client, policy: Policy, name: str) -> None:
    GroupFactory(name=name, external_id=name)
    console.post("/policies/new/", {"name": name, "like": policy.pk})
    for url in ("/policies/", f"/policies/{Policy.objects.latest('pk').pk}/", "/admin/audit/"):
        html = read(console, url)
        assert "<script>alert" not in html
        # Only where a form must send it back is it as it was.
        assert "\u202e" not in re.sub(r'value="[^"]*"', "", html)


# ---------- lists ----------


def test_entries_are_added_shown_and_taken_out(console: Client, policy: Policy) -> None:
    typed = "Free coins\n\n  加微信  \n"
    answer = publish(console, policy, entries=typed, entry_kind="term", entry_outcome="ad:hold")
    assert answer.status_code == 302
    html = read(console, f"/policies/{policy.pk}/")
    assert "Free coins" in html
    assert 'name="drop" value="term:加微信"' in html
    assert "0 →" in html.replace('<span class="muted">', "")
    publish(console, policy, based_on="2", drop="term:free coins")
    html = read(console, f"/policies/{policy.pk}/")
    assert "Free coins" not in html
    assert "加微信" in html


@pytest.mark.parametrize(
    ("kind", "typed", "said"),
    [
        ("domain", "shop.example\nno domain", "Line 2 is not a domain"),
        ("term", "fine\n\n\u200b\n", "Line 3 holds nothing to look for."),
        ("term", "x" * 201, "Line 1 is longer than 200 characters."),
    ],
)
def test_entry_that_cannot_be_used_is_named_by_its_line(
    console: Client, policy: Policy, kind: str, typed: str, said: str
) -> None:
    answer = publish(console, policy, entries=typed, entry_kind=kind, entry_outcome="ad:hold")
    html = answer.content.decode()
    assert answer.status_code == 422
    assert said in html
    assert '<option value="ad:hold" selected>' in html
    assert policy.versions.count() == 1


@pytest.mark.parametrize(
    "sent",
    [
        {"entry_kind": "regex"},
        {"entry_outcome": "ok:remove"},
        {"entry_when": "sometimes"},
        {"entries": "a\x00b"},
    ],
)
def test_form_that_our_page_cannot_send_is_refused(
    console: Client, policy: Policy, sent: dict[str, str]
) -> None:
    assert publish(console, policy, **sent).status_code == 422
    assert policy.versions.count() == 1


def test_conflict_keeps_what_was_typed_and_ticked(
    console: Client, policy: Policy, admin: User
) -> None:
    publish(console, policy, entries="coins\npills")
    sent = {"entries": "chips", "entry_kind": "term", "entry_outcome": "toxic:hold"}
    answer = publish(console, policy, based_on="1", drop="term:coins", **sent)
    html = answer.content.decode()
    assert answer.status_code == 409
    assert 'value="term:coins" checked' in html
    assert 'value="term:pills">' in html
    assert ">chips</textarea>" in html


def test_entry_may_be_kept_for_when_the_model_is_away(console: Client, policy: Policy) -> None:
    kept = {"entries": "coins", "entry_when": "away", "entry_outcome": "ad:hold"}
    publish(console, policy, **kept)
    html = read(console, f"/policies/{policy.pk}/")
    assert "hold <span" in html
    assert "while the model is away</span>" in html
    answer = publish(console, policy, based_on="2", **{**kept, "entry_outcome": "ok:allow"})
    assert answer.status_code == 422
    assert "Nothing is allowed because the model is away." in answer.content.decode()


def test_more_entries_than_allowed_are_refused(
    console: Client, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.policies.services.MOST_RULES", 2)
    answer = publish(console, policy, entries="a\nb\nc")
    assert answer.status_code == 422
    assert "A policy has at most" in answer.content.decode()


@pytest.mark.parametrize("pattern", ["<script>alert(1)</script>", "a\u202eb", "=1+1"])
def test_hostile_entries_are_drawn_not_obeyed(
    console: Client, policy: Policy, pattern: str
) -> None:
    publish(console, policy, entries=pattern)
    html = read(console, f"/policies/{policy.pk}/")
    assert policy.versions.count() == 2
    assert "<script>alert" not in html
    assert "\u202e" not in html


def test_moderator_sees_the_entries_and_cannot_change_them(
    client: Client, console: Client, policy: Policy
) -> None:
    publish(console, policy, entries="coins")
    client.force_login(UserFactory())
    html = read(client, f"/policies/{policy.pk}/")
    assert "coins" in html
    assert 'name="drop"' not in html
    assert 'name="entries"' not in html


# ---------- keys ----------


def test_key_is_shown_once_and_works(console: Client) -> None:
    response = console.post("/admin/keys/", {"name": "Backend"})
    secret = re.search(r"data-text>(cw_[^<]+)<", response.content.decode())
    assert secret is not None
    found = find_key(secret[1])
    assert found is not None
    assert found.name == "Backend"
    assert secret[1] not in read(console, "/admin/keys/")
    assert AuditEvent.objects.get().action == "api_key.created"
    assert secret[1] not in str(AuditEvent.objects.get().after)


def test_revoked_key_is_refused_and_revoking_again_changes_nothing(console: Client) -> None:
    console.post("/admin/keys/", {"name": "Backend"})
    key = ApiKey.objects.get()
    for _ in range(2):
        console.post(f"/admin/keys/{key.pk}/revoke/")
    assert "revoked" in read(console, "/admin/keys/")
    actions = list(AuditEvent.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["api_key.created", "api_key.revoked"]


def test_last_day_of_a_key_is_whole_and_not_over(console: Client) -> None:
    today = timezone.localdate()
    console.post("/admin/keys/", {"name": "Backend", "expires_on": today.isoformat()})
    assert timezone.localtime(ApiKey.objects.get().expires_at).hour == 23
    yesterday = (today - timedelta(days=1)).isoformat()
    response = console.post("/admin/keys/", {"name": "Backend", "expires_on": yesterday})
    assert response.status_code == 422
    assert "That day is over." in response.content.decode()


# ---------- audit ----------


def test_audit_log_goes_back_in_pages_and_filters(console: Client, policy: Policy) -> None:
    publish(console, policy)
    for number in range(60):
        console.post("/admin/keys/", {"name": f"Key {number}"})
    first = read(console, "/admin/audit/")
    assert first.count("api_key.created") == 50
    older = re.search(r'href="\?before=(\d+)', first)
    assert older is not None
    assert read(console, f"/admin/audit/?before={older[1]}").count("api_key.created") == 10
    only = read(console, "/admin/audit/?action=policy")
    assert "api_key.created" not in only
    assert "spam 0.4 0.8" in only


# ---------- rights and queries ----------


@pytest.mark.parametrize(
    ("method", "url", "roles"),
    [
        ("get", "/policies/", {Role.MODERATOR, Role.LEAD, Role.OPERATOR, Role.ADMIN}),
        ("get", "/policies/{}/", {Role.MODERATOR, Role.LEAD, Role.OPERATOR, Role.ADMIN}),
        ("get", "/policies/{}/state/", {Role.MODERATOR, Role.LEAD, Role.OPERATOR, Role.ADMIN}),
        ("post", "/policies/{}/publish/", {Role.ADMIN}),
        ("post", "/policies/new/", {Role.ADMIN}),
        ("post", "/policies/{}/groups/", {Role.ADMIN}),
        ("post", "/policies/{}/groups/leave/", {Role.ADMIN}),
        ("get", "/admin/keys/", {Role.ADMIN}),
        ("post", "/admin/keys/", {Role.ADMIN}),
        ("post", "/admin/keys/1/revoke/", {Role.ADMIN}),
        ("get", "/admin/audit/", {Role.LEAD, Role.ADMIN}),
    ],
)
def test_each_role_gets_in_where_it_may(
    client: Client, policy: Policy, method: str, url: str, roles: set[Role]
) -> None:
    call: Callable[..., Any] = getattr(client, method)
    url = url.format(policy.pk)
    assert call(url)["Location"].startswith("/sign-in/")
    for role in Role:
        client.force_login(UserFactory(role=role))
        assert (call(url).status_code != 403) == (role in roles)


def test_who_may_not_edit_sees_no_form(client: Client, policy: Policy) -> None:
    client.force_login(UserFactory(role=Role.MODERATOR))
    html = read(client, f"/policies/{policy.pk}/")
    assert "You can see the thresholds; admins change them." in html
    assert "<input" not in html.split("<main")[1].split("</main>")[0].replace(
        '<input type="hidden"', ""
    )


@pytest.mark.parametrize(
    ("url", "queries"), [("/policies/{}/", 14), ("/admin/keys/", 5), ("/admin/audit/", 5)]
)
def test_number_of_queries_does_not_grow(
    console: Client, admin: User, policy: Policy, url: str, queries: int
) -> None:
    counts = []
    for size in (1, 6):
        for step in range(size):
            number = policy.versions.count()
            limits = {label: Limits(0.01 * number, 0.5 + 0.01 * step) for label in TUNED}
            publish_version(admin, policy.pk, limits, note="", based_on=number)
            console.post("/policies/new/", {"name": f"P {size} {step}", "like": policy.pk})
            console.post("/admin/keys/", {"name": "Backend"})
            GroupFactory()
            VerdictFactory()
        with CaptureQueriesContext(connection) as captured:
            console.get(url.format(policy.pk))
        counts.append(len(captured))
    assert counts == [queries, queries]
