"""The product's settings, after the test servers are planned: pytest-django loads these first."""

from moderation_site.local.test_plan import plan_once

plan_once()

from moderation_site.settings import *  # noqa: E402, F403
