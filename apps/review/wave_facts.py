"""What queue and card say of waves: one row and one card for all open members."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.accounts.models import User
from apps.review.models import ReviewItem
from apps.review.near_duplicates import essence, likenesses, most_different
from apps.review.queue import Part, QueueFilters, part_of, wave_part
from apps.review.reading import as_read
from apps.review.statements import GROUP_NAME, fetch_rows

# What is looked at in one go to find the next rows: mostly all of them.
_LOOK = 200
# Enough to find different ones among; reading on would cost what changes nothing.
COMPARED_MOST = 200
DIFFERENT_SHOWN = 3
MEMBERS_PAGE = 50


@dataclass(frozen=True, slots=True)
class WaveFacts:
    """All open members that somebody may see. `holder_id` has the wave open now."""

    size: int
    groups: int
    holder_id: int | None


@dataclass(frozen=True, slots=True)
class Member:
    """One of a wave. `likeness` is how much of its runs the shown text shares, 0 to 1."""

    id: int
    text: str
    group: str
    likeness: float


@dataclass(frozen=True, slots=True)
class WaveCard:
    """A wave beside the member that is shown: its size, and those that differ most."""

    facts: WaveFacts
    different: Sequence[Member]

    @property
    def others(self) -> int:
        return self.facts.size - 1


_LOOK_AT = f"ORDER BY item.rank DESC, item.message_id LIMIT {_LOOK}"
_FURTHER = """
(item.rank < %(rank)s OR item.rank = %(rank)s AND item.message_id > %(last)s)
AND (item.wave_id IS NULL OR item.wave_id <> ALL(%(seen)s))
"""


def one_a_wave(part: Part, count: int) -> list[int]:
    """The ids of the first `count` items of `part` in order, of each wave the first.

    One statement; where large waves fill the look into the queue, one more for each further look.
    """
    rows: list[int] = []
    seen: set[int] = set()
    columns = "item.message_id, item.rank, item.wave_id"
    look = part.rows(columns, _LOOK_AT)
    while look:
        for id_, _, wave in look:
            if wave is None or wave not in seen:
                rows.append(id_)
            if wave is not None:
                seen.add(wave)
        if len(look) < _LOOK or len(rows) >= count:
            break
        last, rank, _ = look[-1]
        further = part.narrowed(_FURTHER, last=last, rank=rank, seen=list(seen))
        look = further.rows(columns, _LOOK_AT)
    return rows[:count]


_FACTS = """
item.wave_id, count(*), count(DISTINCT item.group_id),
max(item.leased_by_id) FILTER (WHERE item.lease_until > %(now)s)
"""


def facts_of(user: User, wave_ids: Collection[int], *, now: datetime) -> dict[int, WaveFacts]:
    """The waves among these that have more than one open member, in one statement."""
    if not wave_ids:
        return {}
    part = part_of(user, QueueFilters()).narrowed(
        "item.wave_id = ANY(%(waves)s)", waves=list(wave_ids)
    )
    found = part.rows(_FACTS, "GROUP BY item.wave_id HAVING count(*) > 1", now=now)
    return {wave: WaveFacts(size, groups, holder) for wave, size, groups, holder in found}


def wave_card(user: User, item: ReviewItem, *, now: datetime) -> WaveCard | None:
    """The wave of an open item, unless it is alone: one query, or two."""
    facts = facts_of(user, [item.wave_id] if item.wave_id else [], now=now).get(item.wave_id or 0)
    if facts is None:
        return None
    others = _others(wave_part(user, item.wave_id), item, COMPARED_MOST)
    texts = [essence(text) for text in as_read([item.message.text, *(o[1] for o in others)])]
    chosen = most_different(texts, DIFFERENT_SHOWN)
    return WaveCard(facts, [Member(*others[at - 1], likeness) for at, likeness in chosen])


@dataclass(frozen=True, slots=True)
class MembersPage:
    """Some members of a wave; `goes_on_after` names the last when there are more."""

    members: Sequence[Member]
    goes_on_after: int | None


def members_page(user: User, item: ReviewItem, *, after: int | None) -> MembersPage:
    """The members besides `item`, oldest first, MEMBERS_PAGE at a time."""
    part = wave_part(user, item.wave_id)
    if after is not None:
        part = part.narrowed("item.message_id > %(after)s", after=after)
    page = _others(part, item, MEMBERS_PAGE + 1)
    shown = page[:MEMBERS_PAGE]
    texts = [essence(text) for text in as_read([item.message.text, *(one[1] for one in shown)])]
    pairs = zip(shown, likenesses(texts)[1:], strict=True)
    members = [Member(*one, likeness) for one, likeness in pairs]
    return MembersPage(members, shown[-1][0] if len(page) > MEMBERS_PAGE else None)


_OTHERS = f"""
SELECT item.message_id, message.text, {GROUP_NAME}
FROM review_reviewitem AS item
JOIN chat_message AS message ON message.id = item.message_id
JOIN chat_group ON chat_group.id = item.group_id
WHERE {{part}} AND item.message_id <> %(item)s ORDER BY item.message_id LIMIT %(most)s
"""  # noqa: S608 (a constant of ours)


def _others(part: Part, item: ReviewItem, most: int) -> list[tuple[int, str, str]]:
    """Id, text and group of the first of a part of a wave besides `item`, oldest first."""
    asked = {**part.parameters, "item": item.pk, "most": most}
    return [
        (id_, text, group) for id_, text, group in fetch_rows(_OTHERS.format(part=part.sql), asked)
    ]
