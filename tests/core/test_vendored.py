"""Third-party files are what their packages hold, and none is missing from the table."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from django.conf import settings

VENDOR = Path(settings.BASE_DIR) / "apps/core/static/vendor"
ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| [^|]+ \| [^|]+ \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def test_each_vendored_file_has_the_checksum_of_the_table() -> None:
    listed = dict(ROW.findall((VENDOR / "VENDORED.md").read_text()))
    there = {
        str(path.relative_to(VENDOR)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.name != "VENDORED.md"
    }
    assert there == listed
