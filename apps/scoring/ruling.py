"""What the lists decide of a batch, before the model or instead of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apps.policies.matching import Matched
from apps.policies.models import Action
from apps.releases.training.paths import served_normalizer
from apps.scoring.claims import WaitingMessage
from apps.scoring.models import Source
from apps.scoring.reasons import rule_reasons
from apps.scoring.rulebook import Rulebook
from apps.scoring.sinks import StoredVerdict

_Undone = Mapping[int, tuple[str, int]]


def rule(
    messages: Sequence[WaitingMessage], rulebook: Rulebook
) -> tuple[list[StoredVerdict], list[WaitingMessage]]:
    """Let the lists of each message's policy decide what they can.

    Costs nothing while no policy has entries.

    Returns:
        Verdicts of `source=rules`, under the model's release because they stand for its verdict;
        and the messages that are left to the model.
    """
    return _rule(messages, rulebook, Source.RULES, rulebook.release_id)


def rule_alone(
    messages: Sequence[WaitingMessage], rulebook: Rulebook
) -> tuple[list[StoredVerdict], list[WaitingMessage]]:
    """The same while there is no model: only blocking entries decide, since nothing is to be ok
    because something failed, those too that are kept for this. The verdicts are of
    `source=fallback`, under the rules' own release, so that the model can judge these messages,
    too, when it is back.
    """
    return _rule(messages, rulebook, Source.FALLBACK, rulebook.rules_release_id)


def _rule(
    messages: Sequence[WaitingMessage], rulebook: Rulebook, source: Source, release_id: int
) -> tuple[list[StoredVerdict], list[WaitingMessage]]:
    if not rulebook.has_rules:
        return [], list(messages)
    is_away = source is Source.FALLBACK
    matchers = [rulebook.matcher(message.group_id, is_away=is_away) for message in messages]
    if not any(matchers):
        return [], list(messages)
    undone = _undo([message.text for message in messages])
    verdicts: list[StoredVerdict] = []
    left: list[WaitingMessage] = []
    for row, (message, matcher) in enumerate(zip(messages, matchers, strict=True)):
        text, mask = undone.get(row, (None, 0))
        found = None if matcher is None else matcher.match(message.text, text)
        if found is None:
            left.append(message)
        else:
            verdicts.append(_verdict(message, found, mask, rulebook, source, release_id))
    return verdicts, left


def _verdict(
    message: WaitingMessage,
    found: Matched,
    mask: int,
    rulebook: Rulebook,
    source: Source,
    release_id: int,
) -> StoredVerdict:
    undone = mask if found.is_undone else 0
    return StoredVerdict(
        message.id,
        message.group_id,
        release_id,
        rulebook.version_id(message.group_id),
        source,
        found.label,
        found.action,
        None if found.action == Action.ALLOW else found.label,
        None,
        rule_reasons(found.rule_id, undone),
        undone,
    )


def _undo(texts: Sequence[str]) -> _Undone:
    """Those texts in which something is disguised, as the model reads them."""
    undone: _Undone = served_normalizer().undo(texts)
    return undone
