#!/usr/bin/env python
import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    if sys.argv[1:2] == ["up"]:
        # It makes the environment that the settings read, so it can't wait for them.
        from moderation_site.local.up import main

        sys.exit(main(sys.argv[2:]))
    if sys.argv[1:2] == ["bench"]:
        # Likewise: it starts a stack of its own, or is told of one.
        from benchmarks.command import main as bench

        sys.exit(bench(sys.argv[2:]))
    from moderation_site.local.joining import explain, join

    is_joined = join(os.environ)
    if sys.argv[1:2] == ["train_classifier"]:
        # It signs nothing, and runs before there is a stack with a secret.
        os.environ.setdefault("SECRET_KEY", "training-signs-nothing")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "moderation_site.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(str(error) if is_joined else explain(error))
