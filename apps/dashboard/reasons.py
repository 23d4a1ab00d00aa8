"""Why a replica or its breaker is not well, in the reader's language.

The client tells it as a code of its failure classes (`inference.errors`) or as one of a few fixed
sentences; what is neither is shown as it came, since a strange reason is better than none.
"""

from __future__ import annotations

import re

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

_FAILED = re.compile(r"(?P<failed>\d+) of (?P<all>\d+) failed in (?P<window_s>[\d.e+]+) s")

REASON_WORDS: dict[str, Promise] = {
    # What health checks find.
    "no answer": gettext_lazy("no answer to health checks"),
    "the model is not ready": gettext_lazy("the model is not ready"),
    # A breaker's own steps.
    "probing": gettext_lazy("probing"),
    "the probe failed": gettext_lazy("the probe failed"),
    "the probe succeeded": gettext_lazy("the probe succeeded"),
    # An operator's hand.
    "forced": gettext_lazy("held by an operator"),
    "by hand": gettext_lazy("by an operator"),
    "draining": gettext_lazy("finishes what it has"),
    "removed": gettext_lazy("no longer in the list of replicas"),
    # Failure classes that put a replica aside.
    "unreachable": gettext_lazy("the connection was lost"),
    "connect_failed": gettext_lazy("no connection"),
    "stopping": gettext_lazy("it is stopping"),
    "model_not_ready": gettext_lazy("the model is not ready"),
    "model_failed": gettext_lazy("the model fails"),
    "bad_response": gettext_lazy("its answers can't be read"),
    "queue_full": gettext_lazy("its queue is full"),
    "queue_expired": gettext_lazy("its queue is too slow"),
    "attempt_timeout": gettext_lazy("it answers too late"),
}


def reason_words(reason: str) -> str:
    """What the page says for a reason that `inference` gave."""
    failed = _FAILED.fullmatch(reason)
    if failed:
        return _("%(failed)s of %(all)s calls failed in %(window_s)s s") % failed.groupdict()
    return str(REASON_WORDS.get(reason, reason))
