"""Lists: which entries a text holds, and what they make of it. Pure, and linear in the text.

All entries of a list go into one automaton over tokens (Aho-Corasick), so a text is read once
whatever the number of entries, and no entry can make it slow: entries are plain text, never
patterns.

Who blocks wins over who allows. Among blocks the strictest acts, then the one listed first. An
allowance is narrow, since anybody can write an allowed word: it counts only in a text in which
nothing was disguised, and an allowed domain only where the text names no other.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from apps.policies.folding import decode_host, fold, hosts, tokens
from apps.policies.models import Action, Label, RuleKind

MOST_PATTERN_CHARS = 200
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://")


class Fault(StrEnum):
    """Why an entry can't be used."""

    EMPTY = "empty"
    TOO_LONG = "too_long"
    NOT_A_DOMAIN = "not_a_domain"


class PatternError(ValueError):
    """An entry that can't be used."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


class RuleSpec(NamedTuple):
    """One entry: what is looked for, and what a text that holds it is. With `only_away` it says so
    only while the model can't.
    """

    kind: RuleKind
    pattern: str
    label: Label
    action: Action
    only_away: bool = False

    @property
    def key(self) -> tuple[RuleKind, str]:
        """Two entries of one key are the same entry."""
        return self.kind, pattern_key(self.kind, self.pattern)


class Matched(NamedTuple):
    """The entry that decides. `is_undone`: only once a disguise was undone."""

    rule_id: int
    label: Label
    action: Action
    is_undone: bool


def pattern_key(kind: RuleKind, pattern: str) -> str:
    """What of an entry is compared.

    Raises:
        PatternError: nothing is left to look for, it is too long, or is no domain.
    """
    folded = fold(pattern)
    if not folded:
        raise PatternError(Fault.EMPTY)
    key = _domain(folded) if kind == RuleKind.DOMAIN else folded
    if max(len(key), len(pattern)) > MOST_PATTERN_CHARS:
        raise PatternError(Fault.TOO_LONG)
    return key


def _domain(folded: str) -> str:
    """The host of what people paste: a link, `*.host`, `host.`."""
    host = _SCHEME.sub("", folded).split("/", 1)[0].removeprefix("*").strip(".")
    if hosts(host) != [decode_host(host)]:
        raise PatternError(Fault.NOT_A_DOMAIN)
    return decode_host(host)


class Matcher:
    """The entries of one policy version, ready to be looked for. Never changes: safe to share."""

    def __init__(self, rules: Iterable[tuple[int, RuleSpec]], *, is_away: bool = False) -> None:
        """Of entries with their ids, those that count.

        Args:
            rules: The entries.
            is_away: Whether this is for while the model is away: then blocking entries count, all
                of them; else those do that are not kept for that.
        """
        counting = (rule for rule in rules if _counts(rule[1], is_away=is_away))
        self._ranked = sorted(counting, key=_standing)
        self._none = len(self._ranked)
        # Where the allowing ones begin.
        self._allow_from = sum(spec.action != Action.ALLOW for _, spec in self._ranked)
        self._domains: dict[str, int] = {}
        self._terms = _Automaton(self._none)
        for rank, (_, spec) in enumerate(self._ranked):
            kind, key = spec.key
            if kind == RuleKind.DOMAIN:
                self._domains.setdefault(key, rank)
            else:
                self._terms.add(tokens(key), rank, is_block=rank < self._allow_from)
        self._terms.link()
        self._most_labels = max((d.count(".") + 1 for d in self._domains), default=0)

    def match(self, text: str, undone: str | None = None) -> Matched | None:
        """What the list makes of a text.

        Args:
            text: as it was written.
            undone: the same with its disguise undone, if there was any.

        Returns:
            None when the list has nothing to say.
        """
        block, allow = self._find(fold(text))
        if undone is not None:
            hidden, _ = self._find(fold(undone))
            if hidden < block:
                return self._matched(hidden, is_undone=True)
        if block < self._none:
            return self._matched(block)
        if undone is None and allow < self._none:
            return self._matched(allow)
        return None

    def _find(self, folded: str) -> tuple[int, int]:
        """The ranks of the blocking and the allowing entry that come first."""
        block, allow = self._terms.find(tokens(folded))
        if not self._domains:
            return block, allow
        ranks = [self._rank_of_host(host) for host in hosts(folded)]
        blocking = [rank for rank in ranks if rank < self._allow_from]
        if ranks and not blocking and max(ranks) < self._none:
            allow = min(allow, *ranks)
        return min([block, *blocking]), allow

    def _rank_of_host(self, host: str) -> int:
        """Of the domains a host belongs to, the narrowest that is listed."""
        labels = host.split(".")[-self._most_labels :]
        parents = (".".join(labels[start:]) for start in range(len(labels)))
        return next((self._domains[p] for p in parents if p in self._domains), self._none)

    def _matched(self, rank: int, *, is_undone: bool = False) -> Matched:
        rule_id, spec = self._ranked[rank]
        return Matched(rule_id, spec.label, spec.action, is_undone)


_STRICTNESS = {Action.REMOVE: 0, Action.HOLD: 1, Action.ALLOW: 2}


def _counts(spec: RuleSpec, *, is_away: bool) -> bool:
    return spec.action != Action.ALLOW if is_away else not spec.only_away


def _standing(rule: tuple[int, RuleSpec]) -> tuple[int, int]:
    rule_id, spec = rule
    return _STRICTNESS[spec.action], rule_id


class _Automaton:
    """Runs of tokens, each with a rank; finds the lowest rank of either kind in one reading."""

    def __init__(self, none: int) -> None:
        self._none = none
        self._next: list[dict[str, int]] = [{}]
        self._fail = [0]
        self._block, self._allow = [none], [none]

    def add(self, run: Iterable[str], rank: int, *, is_block: bool) -> None:
        node = 0
        for token in run:
            node = self._next[node].setdefault(token, len(self._next))
            if node == len(self._next):
                self._next.append({})
                self._fail.append(0)
                self._block.append(self._none)
                self._allow.append(self._none)
        ranks = self._block if is_block else self._allow
        ranks[node] = min(ranks[node], rank)

    def link(self) -> None:
        """Where to go on when a run breaks off: the longest end of it that begins another."""
        queue = deque(self._next[0].values())
        while queue:
            node = queue.popleft()
            for token, child in self._next[node].items():
                fail = self._fail[node]
                while fail and token not in self._next[fail]:
                    fail = self._fail[fail]
                fail = self._next[fail].get(token, 0)
                self._fail[child] = fail
                self._block[child] = min(self._block[child], self._block[fail])
                self._allow[child] = min(self._allow[child], self._allow[fail])
                queue.append(child)

    def find(self, read: list[str]) -> tuple[int, int]:
        """The lowest blocking and allowing rank; `none` where there is none."""
        if self._next[0].keys().isdisjoint(read):
            return self._none, self._none
        node, block, allow = 0, self._none, self._none
        following, fail = self._next, self._fail
        for token in read:
            while node and token not in following[node]:
                node = fail[node]
            node = following[node].get(token, 0)
            block = min(block, self._block[node])
            allow = min(allow, self._allow[node])
        return block, allow
