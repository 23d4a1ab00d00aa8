"""Policies, keys and the audit log in a real browser: sliders by key, news, conflicts, axe."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Role, User
from apps.policies.judging import Limits
from apps.policies.matching import RuleSpec
from apps.policies.models import Action, Label, Policy, RuleKind
from apps.policies.services import (
    TUNED,
    RuleChange,
    create_policy,
    limits_of,
    newest_version,
    publish_version,
)
from tests.e2e.conftest import PHONE, WIDE, SignIn, Troubles
from tests.factories import GroupFactory, UserFactory, VerdictFactory, default_policy_version

HOSTILE = ["<script>alert(1)</script>", "safe \u202egpj", "z" + "\u0300" * 60, "שלום", "a" * 90]


@pytest.fixture
def policy(transactional_db: None) -> Policy:
    return default_policy_version().policy


@pytest.fixture
def admin(policy: Policy) -> User:
    return UserFactory(username="root", role=Role.ADMIN)


def open_policy(page: Page, policy: Policy) -> Page:
    page.goto(f"/policies/{policy.pk}/")
    expect(page.locator("html")).to_have_attribute("data-live", "live")
    return page


def test_thresholds_are_moved_by_key_and_published(
    sign_in: SignIn, admin: User, policy: Policy
) -> None:
    for score in (0.4, 0.45, 0.6):
        VerdictFactory(score_spam=score)
    page = open_policy(sign_in(user=admin), policy)
    spam = page.get_by_role("region", name="spam", exact=True)
    expect(spam.locator('[data-now="held"]')).to_have_text("1")
    page.get_by_role("slider", name="spam, hold").focus()
    for key in ("ArrowLeft", "Shift+ArrowLeft", "PageDown"):
        page.keyboard.press(key)
    expect(page.get_by_role("spinbutton", name="Hold from").first).to_have_value("0.39")
    expect(spam.locator('[data-shown="hold"]')).to_have_text(".50 → .39")
    expect(spam.locator('[data-now="held"]')).to_have_text("3")
    page.get_by_label("Why").fill("More eyes on spam")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Version 2 is in force.", exact=True)).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="More eyes on spam")).to_contain_text(
        ".50 → .39"
    )


def test_thumbs_cannot_pass_each_other(sign_in: SignIn, admin: User, policy: Policy) -> None:
    page = open_policy(sign_in(user=admin), policy)
    page.get_by_role("slider", name="ad, hold").focus()
    page.keyboard.press("End")
    expect(page.get_by_role("slider", name="ad, hold")).to_have_attribute("aria-valuenow", "0.95")
    page.get_by_role("slider", name="ad, remove").focus()
    page.keyboard.press("Home")
    expect(page.get_by_role("slider", name="ad, remove")).to_have_attribute("aria-valuenow", "0.95")


def test_typed_value_that_cannot_be_used_is_named_in_place(
    sign_in: SignIn, troubles: Troubles, admin: User, policy: Policy
) -> None:
    troubles.expect("422")
    page = open_policy(sign_in(user=admin), policy)
    page.get_by_role("spinbutton", name="Hold from").first.fill("0.95")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("region", name="spam", exact=True).get_by_role("alert")).to_have_text(
        "Remove must not be below hold."
    )
    expect(page.get_by_role("spinbutton", name="Hold from").first).to_have_value("0.95")


def test_second_editor_sees_the_news_and_is_not_overwritten(
    sign_in: SignIn, troubles: Troubles, admin: User, policy: Policy
) -> None:
    troubles.expect("409")
    page = open_policy(sign_in(user=admin), policy)
    page.get_by_role("spinbutton", name="Hold from").first.fill("0.45")
    lee = UserFactory(username="lee", role=Role.ADMIN)
    publish_version(
        lee, policy.pk, {label: Limits(0.3, 0.9) for label in TUNED}, note="", based_on=1
    )
    expect(page.get_by_text("Version 2 is in force now")).to_be_visible()
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("alert")).to_contain_text("Version 2 was published while you edited")
    expect(page.get_by_role("spinbutton", name="Hold from").first).to_have_value("0.45")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Version 3 is in force.", exact=True)).to_be_visible()


def test_everything_works_without_javascript(sign_in: SignIn, admin: User, policy: Policy) -> None:
    group = GroupFactory(name="Boats")
    page = sign_in(user=admin, java_script_enabled=False)
    page.goto("/policies/")
    page.get_by_role("spinbutton", name="Hold from").first.fill("0.45")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Version 2 is in force.", exact=True)).to_be_visible()
    page.get_by_text("New policy").click()
    page.get_by_label("Name", exact=True).fill("Harbours")
    page.get_by_role("button", name="Create").click()
    page.get_by_label("Let a group follow this policy").fill(group.external_id)
    page.get_by_role("button", name="Assign").click()
    expect(page.get_by_role("cell", name="Boats")).to_be_visible()
    page.get_by_role("button", name="To default").click()
    expect(page.get_by_text("No group follows this policy yet.")).to_be_visible()


def test_entries_are_added_and_taken_out(sign_in: SignIn, admin: User, policy: Policy) -> None:
    page = open_policy(sign_in(user=admin), policy)
    lists = page.get_by_role("region", name="Lists")
    lists.get_by_label("One a line").fill("free coins\n加微信")
    lists.get_by_label("Leads to").select_option("ad:hold")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Version 2 is in force.", exact=True)).to_be_visible()
    coins = lists.get_by_role("row").filter(has_text="free coins")
    expect(coins).to_contain_text("hold")
    lists.get_by_role("checkbox", name="Take out free coins").check()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Version 3 is in force.", exact=True)).to_be_visible()
    expect(coins).to_have_count(0)
    expect(lists.get_by_role("row").filter(has_text="加微信")).to_be_visible()


def test_key_is_made_shown_once_and_revoked(sign_in: SignIn, admin: User) -> None:
    page = sign_in(user=admin)
    page.goto("/admin/keys/")
    page.get_by_label("Name", exact=True).last.fill("Backend")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("[data-text]")).to_contain_text("cw_")
    page.goto("/admin/keys/")
    expect(page.locator("[data-text]")).to_have_count(0)
    page.get_by_role("button", name="Revoke Backend").click()
    expect(page.get_by_role("row").filter(has_text="Backend")).to_contain_text("revoked")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_accessible_and_fit_whatever_people_wrote(
    sign_in: SignIn,
    admin: User,
    policy: Policy,
    assert_accessible: Callable[[Page], None],
    theme: str,
    size: dict[str, int],
) -> None:
    spec = RuleSpec(RuleKind.TERM, "", Label.SPAM, Action.HOLD)
    publish_version(
        admin,
        policy.pk,
        limits_of(newest_version(policy)),
        note="",
        based_on=newest_version(policy).number,
        rules=RuleChange([spec._replace(pattern=name) for name in HOSTILE]),
    )
    for number, name in enumerate(HOSTILE):
        GroupFactory(name=name, external_id=f"{number} {name}")
        create_policy(admin, name=name, like=policy.pk)
        VerdictFactory(score_spam=number / 5)
    page = sign_in(user=admin, color_scheme=theme, viewport=size)
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    for path in ("/policies/", "/admin/keys/", "/admin/audit/"):
        page.goto(path)
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
