"""A card as its template needs it: texts cut into marks, words for states, shares for rings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from apps.chat.models import Message
from apps.core.marks import count_kinds, pieces
from apps.core.templatetags.hostile import marked
from apps.policies.models import Label, Rule
from apps.review.conversation import Conversation, conversation_of
from apps.review.diffing import Change, changes
from apps.review.models import Language, Reason
from apps.review.queue import QueueFilters
from apps.review.queue_page import FOUND_MOST, QueuePage
from apps.review.reading import read
from apps.review.selectors import Card, Evidence
from apps.review.services.waves import join_time
from apps.review.spans import Span, carried_over, find_spans
from apps.review.wording import by_whom
from apps.scoring.reasons import KILLED_WORKERS, NOT_FINITE, POISONED

# The spans that are written out beside the text.
SPANS_LISTED = 4


@dataclass(frozen=True, slots=True)
class Edit:
    """A revision and what it changed of the one before."""

    message: Message
    changes: Sequence[Change]


def card_context(card: Card, keys: Mapping[str, str]) -> dict[str, Any]:
    kinds = count_kinds(pieces(card.message.text))
    reading = read(card.message.text)
    return {
        "card": card,
        "kinds": {str(kind): count for kind, count in kinds.items()},
        "altered": sum(kinds.values()),
        "reading": reading,
        "undone": [undone_word(name) for name in reading.undone] if reading else [],
        "reasons": reason_words(card.verdict.reasons) if card.verdict else [],
        "edits": _edits(card),
        **conversation_context(card.item.pk, conversation_of(card.context)),
        "not_mine": by_whom(card.decision) if card.decision else "",
        "labels": [(one.value, one.label, keys[f"label_{one.value}"]) for one in Label],
        "whys": [(one.value, one.label, keys[f"reason_{one.value}"]) for one in Reason],
        "join_minutes": join_minutes(),
    }


def _edits(card: Card) -> list[Edit]:
    """Each edit, newest first: the revision that came of it and what it changed."""
    revisions = [card.message, *card.earlier]
    return [Edit(newer, changes(older.text, newer.text)) for newer, older in pairwise(revisions)]


def conversation_context(item_id: int, around: Conversation) -> dict[str, Any]:
    return {"item_id": item_id, "around": around}


def spans_context(evidence: Evidence, shares: Sequence[float]) -> dict[str, Any]:
    """Both texts with their spans, and the heaviest spans by themselves."""
    found = find_spans(evidence.text, shares)
    reading = read(evidence.text)
    heaviest = sorted(found, key=lambda span: -span.weight)[:SPANS_LISTED]
    return {
        "state": "shown" if found else "none",
        "label": evidence.label,
        "sent": highlighted(evidence.text, found),
        "read": highlighted(reading.text, carried_over(found, reading.offsets)) if reading else "",
        "heaviest": [(evidence.text[s.start : s.end], s.weight) for s in heaviest],
    }


def highlighted(text: str, spans: Sequence[Span]) -> SafeString:
    """The text as `marked` draws it, each span in a `<mark>`."""
    parts, at = [], 0
    for span in spans:
        parts.append(marked(text[at : span.start]))
        inside = marked(text[span.start : span.end])
        parts.append(
            format_html('<mark class="span" data-level="{}">{}</mark>', span.level, inside)
        )
        at = span.end
    return SafeString("".join([*parts, marked(text[at:])]))


def join_minutes() -> int:
    """How long near-duplicates join the decision of their wave, for the card."""
    return round(join_time().total_seconds() / 60)


def queue_context(page: QueuePage, filters: QueueFilters) -> dict[str, Any]:
    tabs = [(label.value, label.label, page.by_label.get(label.value, 0)) for label in Label]
    undetermined = ("", _("undetermined"), page.by_label.get(None, 0))
    size = _size(page, filters)
    return {
        "page": page,
        "filters": filters,
        "languages": Language.choices,
        "target": target(),
        "is_late": page.oldest is not None and timezone.now() - page.oldest > target(),
        "found_most": FOUND_MOST,
        "tabs": [tab for tab in [*tabs, undetermined] if tab[2] or tab[0] not in ("", Label.OK)],
        "hidden": max(size - page.shown, 0),
    }


def target() -> timedelta:
    """How long a message shall wait at most."""
    return timedelta(seconds=settings.REVIEW_TARGET_S)


def _size(page: QueuePage, filters: QueueFilters) -> int:
    if page.found is not None:
        return min(page.found, FOUND_MOST)
    if page.of_cause is not None:
        return page.of_cause
    if filters.label is not None:
        return page.by_label.get(filters.label, 0)
    return page.by_label.get(None, 0) if filters.cause is not None else page.total


def reason_words(reasons: Sequence[str]) -> list[str]:
    """A verdict's reasons; in place of an entry's id, what the entry looks for."""
    ids = [int(word) for reason in reasons if (word := reason.removeprefix("rule:")).isdecimal()]
    patterns = dict(Rule.objects.filter(pk__in=ids).values_list("pk", "pattern")) if ids else {}
    names = {f"rule:{id_}": _("List entry: %s") % pattern for id_, pattern in patterns.items()}
    return [names.get(reason) or code_words(reason) for reason in reasons]


def code_words(reason: str) -> str:
    """One of `apps.scoring.reasons` for people; the code itself when it is a newer one."""
    kind, _sign, rest = reason.partition(":")
    if kind == "model" and rest in Label.values:
        return _("Model: %s") % Label(rest).label
    if kind == "undone":
        return _("Disguise undone: %s") % undone_word(rest)
    undetermined = {
        POISONED: _("Undetermined: the model could not read it"),
        NOT_FINITE: _("Undetermined: the model gave no usable score"),
        KILLED_WORKERS: _("Undetermined: workers ended while judging it"),
    }
    return undetermined.get(reason, reason)


def undone_word(name: str) -> str:
    """What the normaliser undid, for people; its own name when we have no word."""
    words = {
        "invisible_chars": _("invisible characters"),
        "look_alikes": _("look-alike letters"),
        "spaced_letters": _("spaced letters"),
        "stretched": _("stretched letters"),
        "full_width": _("styled letters"),
        "leet": _("digits for letters"),
        "bidi_controls": _("direction controls"),
        "encoded_links": _("encoded links"),
        "combining_marks": _("combining marks"),
        "invalid_utf8": _("broken characters"),
        "truncated": _("read in part"),
    }
    return words.get(name, name)


def reversal_choices() -> list[tuple[str, str]]:
    """What a decision can be turned into: allowed, kept held, or removed as something."""
    removed = [
        (f"remove:{label}", _("Remove as %(label)s") % {"label": label.label})
        for label in Label
        if label != Label.OK
    ]
    return [("allow:ok", _("Allow")), *removed]
