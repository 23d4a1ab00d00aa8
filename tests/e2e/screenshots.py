"""Pictures of every page for the documentation: `make screenshots`. Not a test, and not collected.

Each page in both themes, both languages, wide and on a phone, with the data of `demo.py`. The
environment variable PICTURES names some of the pages, to take these alone: `PICTURES=wave,range`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.chat.models import Chunk
from tests.e2e import demo, demo_checks
from tests.e2e.conftest import PHONE, WIDE, SignIn, Troubles

FOLDER = Path(settings.BASE_DIR) / "docs/screenshots"
PAGES: dict[str, tuple[Role | None, str]] = {
    "sign-in": (None, "/sign-in/"),
    "review": (Role.MODERATOR, "/review/"),
    "review-figures": (Role.MODERATOR, "/review/figures/"),
    "review-keys": (Role.MODERATOR, "/review/keys/"),
    "wellbeing": (Role.MODERATOR, "/review/wellbeing/"),
    "wave": (Role.MODERATOR, f"/review/items/{demo_checks.WAVE_ID}/"),
    "range": (Role.MODERATOR, "/review/range/?label=spam&low=0.7&high=0.74"),
    "history": (Role.MODERATOR, "/review/history/"),
    "appeals": (Role.ADMIN, "/review/appeals/"),
    "agreement": (Role.ADMIN, "/review/agreement/"),
    "operate": (Role.ADMIN, "/operate/"),
    "policies": (Role.ADMIN, "/policies/"),
    "keys": (Role.ADMIN, "/admin/keys/"),
    "audit": (Role.ADMIN, "/admin/audit/"),
    "denied": (Role.MODERATOR, "/admin/keys/"),
}
WANTED = os.environ.get("PICTURES", ",".join(PAGES)).split(",")
LANGUAGES = {"en": "en-GB", "zh": "zh-CN"}
SIZES = {"1440": WIDE, "390": PHONE}


@pytest.mark.usefixtures("triton")  # which explains the verdicts
def test_take_pictures(sign_in: SignIn, open_page: Callable[..., Page], troubles: Troubles) -> None:
    people = demo.fill(timezone.now())
    troubles.expect("403")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for language, locale in LANGUAGES.items():
        for theme in ("light", "dark"):
            for size, viewport in SIZES.items():
                context = {"locale": locale, "color_scheme": theme, "viewport": viewport}
                for name in WANTED:
                    role, path = PAGES[name]
                    page = (
                        open_page(**context)
                        if role is None
                        else sign_in(user=people[role], **context)
                    )
                    Chunk.objects.update(created_at=timezone.now() - timedelta(seconds=1))
                    page.goto(path)
                    _settle(page)
                    file = FOLDER / f"{name}-{theme}-{size}-{language}.png"
                    page.screenshot(path=file, full_page=viewport is WIDE)
                    page.context.close()


def _settle(page: Page) -> None:
    page.evaluate("document.fonts.ready")
    if page.locator("live-link").count():
        expect(page.locator("live-link .state")).to_have_attribute("data-state", "healthy")
    if page.locator("verdict-spans").count():
        explained = re.compile("shown|none")
        expect(page.locator("verdict-spans")).to_have_attribute("data-state", explained)
    if page.locator("live-chart").count():
        expect(page.locator("live-chart canvas")).to_have_count(2)
