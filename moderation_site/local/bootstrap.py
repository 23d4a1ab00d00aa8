"""Makes a database ready for use: tables, static files, the first people and the first key.

Run as `python -m moderation_site.local.bootstrap` by `manage.py up`, in a process of its own: the
settings can only be read once the servers' addresses are known. Takes JSON on its standard input,
writes one JSON object a line: `{"step": …}` as it goes, `{"api_key": …}` at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command

FINGERPRINT = ".fingerprint"


def main() -> None:
    order = json.load(sys.stdin)
    django.setup()
    say(step="Migrating the database")
    call_command("migrate", interactive=False, verbosity=0)
    collect_static_files()
    say(step="Making the first accounts")
    for person in order["people"]:
        make_person(**person)
    say(api_key=make_key(order["api_key"]))


def collect_static_files() -> None:
    """Collects unless the same files were collected before: compressing them takes seconds."""
    root = Path(settings.STATIC_ROOT)
    current = static_fingerprint()
    stamp = root / FINGERPRINT
    if stamp.exists() and stamp.read_text(encoding="ascii") == current:
        return
    say(step="Collecting static files")
    call_command("collectstatic", interactive=False, verbosity=0)
    root.mkdir(parents=True, exist_ok=True)
    stamp.write_text(current, encoding="ascii")


def static_fingerprint() -> str:
    from django.contrib.staticfiles.finders import get_finders

    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            facts = os.stat(storage.path(path))
            digest.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def make_person(*, username: str, role: str, password: str) -> None:
    """Makes the account, or sets it back to what `up` is about to print. Else sessions stay."""
    from apps.accounts.models import Role, User
    from apps.audit.people import set_user
    from apps.audit.services import Actor

    user = User.objects.filter(username=username, role=role, is_active=True).first()
    if user is None or not user.check_password(password):
        set_user(
            username=username, role=Role(role), password=password, by=Actor.system("manage.py up")
        )


def make_key(known: str | None) -> str:
    """The key that was made before if it still works, else a new one."""
    from apps.accounts.keys import find_key
    from apps.audit.people import add_key
    from apps.audit.services import Actor

    if known is not None and find_key(known) is not None:
        return known
    _, secret = add_key(name="manage.py up", by=Actor.system("manage.py up"))
    return secret


def say(**facts: str) -> None:
    print(json.dumps(facts), flush=True)  # noqa: T201 (read by `up`)


if __name__ == "__main__":
    main()
