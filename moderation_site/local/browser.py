"""Finds a Chromium for the browser tests, or installs one. Run by `make browser`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from moderation_site.local.errors import StackError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL_TIMEOUT_S = 600


def find_browser() -> Path | None:
    """The browser that CHROMIUM names, else the system's, else the one Playwright installed."""
    named = os.environ.get("CHROMIUM")
    if named:
        return Path(named)
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    return _playwrights_own()


def install_browser() -> Path:
    """Installs one with Playwright, else with the package manager.

    Raises:
        StackError: Neither could.
    """
    ways = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        ways.append(["apt-get", "install", "-y", "--no-install-recommends", "chromium"])
    for way in ways:
        if _succeeds(way) and (found := find_browser()) is not None:
            return found
    raise StackError(
        "The browser tests need Chromium and it could not be installed: install it with your "
        "package manager, or set CHROMIUM to its path."
    )


def _playwrights_own() -> Path | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if path.exists() else None


def _succeeds(argv: list[str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 (one of the two command lines above)
            argv, capture_output=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    try:
        path = find_browser() or install_browser()
    except StackError as error:
        print(error, file=sys.stderr)  # noqa: T201 (the one clear sentence)
        return 1
    print(f"Browser: {path}")  # noqa: T201 (what `make browser` is asked for)
    return 0


if __name__ == "__main__":
    sys.exit(main())
