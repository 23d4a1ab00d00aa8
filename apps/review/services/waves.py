"""Which wave a new item belongs to, whether its wave is decided already, and taking items out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.review.announce import announce
from apps.review.errors import ItemWithdrawnError, LeaseLostError
from apps.review.models import JointDecision, ReviewItem, ReviewState, Wave, WaveBand
from apps.review.near_duplicates import Print, essence, is_alike, prints
from apps.review.queue import wave_part
from apps.review.reading import as_read
from apps.scoring.claims import array_literal, raw_cursor

# A band that very many waves share says little; the oldest waves are the ones to join.
BAND_WAVES_MOST = 20
# Locks a batch takes: PostgreSQL has room for 6,400 by default, in all transactions together.
LOCKS_MOST = 256
# Waves in which nobody waits are kept this long, for what may still come.
KEPT = timedelta(days=3)
FORGET_BATCH = 5_000

# From each band its oldest waves. LATERAL and LIMIT keep PostgreSQL to one look into the index a
# band, however many bands are asked for and whatever it thinks of the table.
_FIND = f"""
SELECT wave.id, wave.signature, near.bands FROM (
  SELECT found.wave_id, array_agg(asked.band) AS bands FROM unnest(%s::int[]) AS asked (band)
  CROSS JOIN LATERAL (
    SELECT wave_id FROM review_waveband WHERE band = asked.band
    ORDER BY wave_id LIMIT {BAND_WAVES_MOST}
  ) AS found GROUP BY 1
) AS near JOIN review_wave AS wave ON wave.id = near.wave_id ORDER BY wave.id
"""  # noqa: S608 (a constant of ours)

# Two workers with the first copies of one wave: the second waits, and then finds the first's.
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS lock (key)"
_LOCK_SPACE = 0x57415645 << 32

_MAKE = """
WITH new AS MATERIALIZED (
  SELECT nextval('review_wave_id_seq') AS id, place, signature, bands::int[]
  FROM unnest(%s::bytea[], string_to_array(%s, '|')) WITH ORDINALITY
    AS given (signature, bands, place)
), made AS (
  INSERT INTO review_wave (id, signature, bands, opened_at)
  SELECT id, signature, bands, now() FROM new
), banded AS (
  INSERT INTO review_waveband (band, wave_id) SELECT DISTINCT unnest(bands), id FROM new
)
SELECT id FROM new ORDER BY place
"""

_FORGET_BANDS = """
DELETE FROM review_waveband AS near USING review_wave AS wave
WHERE wave.id = ANY(%s) AND near.band = ANY(wave.bands) AND near.wave_id = wave.id
"""

# For key share: it keeps out whoever decides the wave, until these members are in it, and lets
# those by who only open it. What the decision is has to be read afterwards, in a new snapshot.
_JOIN = "SELECT id, joint_id FROM review_wave WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE"


def assign(texts: Mapping[int, str]) -> dict[int, int]:
    """The wave of each message, made where there is none yet; of those whose text says enough.

    Runs in the transaction that opens the items, in a fixed number of statements.
    """
    ids = list(texts)
    printed = prints([essence(text) for text in as_read(list(texts.values()))])
    known = {id_: one for id_, one in zip(ids, printed, strict=True) if one is not None}
    if not known:
        return {}
    found = _match(known)
    firsts, followers = _group({id_: one for id_, one in known.items() if id_ not in found})
    if firsts:
        _wait_for_others(firsts)
        found |= _match(firsts)
        found |= _make({id_: one for id_, one in firsts.items() if id_ not in found})
    return found | {id_: found[first] for id_, first in followers.items()}


def _match(wanted: Mapping[int, Print]) -> dict[int, int]:
    """The oldest wave that each is alike to."""
    bands_asked = {band for one in wanted.values() for band in one.bands}
    with connection.wrap_database_errors, raw_cursor() as cursor:
        cursor.execute(_FIND, [array_literal(bands_asked)])
        waves = cursor.fetchall()
    by_band: dict[int, dict[int, bytes]] = {}
    for wave, signature, bands in waves:
        for band in bands:
            by_band.setdefault(band, {})[wave] = bytes(signature)
    seen: dict[Print, int | None] = {}  # a wave's copies are mostly the same
    for one in wanted.values() if waves else ():
        if one not in seen:
            near = {k: v for band in one.bands for k, v in by_band.get(band, {}).items()}
            alike = (wave for wave in sorted(near) if is_alike(one.signature, near[wave]))
            seen[one] = next(alike, None)
    return {id_: wave for id_, one in wanted.items() if (wave := seen.get(one)) is not None}


def _group(wanted: Mapping[int, Print]) -> tuple[dict[int, Print], dict[int, int]]:
    """The first of each new wave, and of all others in the batch the first that they follow."""
    firsts: dict[int, Print] = {}
    followers: dict[int, int] = {}
    by_band: dict[int, list[int]] = {}
    for id_, one in wanted.items():
        near = dict.fromkeys(first for band in one.bands for first in by_band.get(band, ()))
        alike = (f for f in near if is_alike(one.signature, firsts[f].signature))
        first = next(alike, None)
        if first is not None:
            followers[id_] = first
            continue
        firsts[id_] = one
        for band in one.bands:
            by_band.setdefault(band, []).append(id_)
    return firsts, followers


def _wait_for_others(firsts: Mapping[int, Print]) -> None:
    """What could be found by a band must share a lock: one a band, while there are few texts."""
    each = max(LOCKS_MOST // len(firsts), 1)
    keys = {_LOCK_SPACE + band % 2**32 for one in firsts.values() for band in one.bands[:each]}
    with connection.wrap_database_errors, raw_cursor() as cursor:
        cursor.execute(_ONE_AT_A_TIME, [array_literal(sorted(keys))])


def _make(firsts: Mapping[int, Print]) -> dict[int, int]:
    if not firsts:
        return {}
    with connection.wrap_database_errors, raw_cursor() as cursor:
        cursor.execute(
            _MAKE,
            [
                [p.signature for p in firsts.values()],
                "|".join(array_literal(p.bands) for p in firsts.values()),
            ],
        )
        return dict(zip(firsts, (row[0] for row in cursor.fetchall()), strict=True))


@dataclass(frozen=True, slots=True)
class Places:
    """Where new items belong: by message, its wave, and the decision of that wave it joins."""

    waves: Mapping[int, int]
    joining: Mapping[int, JointDecision]


def place(texts: Mapping[int, str], *, now: datetime) -> Places:
    """`assign`, with the waves locked so that whoever decides one now either sees these messages
    among its members or has its decision seen here.
    """
    waves = assign(texts)
    if not waves:
        return Places({}, {})
    with connection.cursor() as cursor:
        cursor.execute(_JOIN, [sorted(set(waves.values()))])
        joint_of = dict(cursor.fetchall())
    # One that was forgotten in this very moment is no wave any more.
    waves = {id_: wave for id_, wave in waves.items() if wave in joint_of}
    if not any(joint_of.values()):
        return Places(waves, {})
    standing = JointDecision.objects.select_related("moderator").filter(
        pk__in={joint for joint in joint_of.values() if joint},
        undone_at__isnull=True,
        joins_until__gt=now,
    )
    joints = {joint.pk: joint for joint in standing}
    joined = {id_: joints.get(joint_of[wave]) for id_, wave in waves.items()}
    return Places(waves, {id_: joint for id_, joint in joined.items() if joint is not None})


def join_time() -> timedelta:
    """How long what comes later joins the decision of its wave."""
    return timedelta(seconds=settings.REVIEW_WAVE_JOIN_S)


def is_alone(user: User, item: ReviewItem) -> bool:
    """Whether its wave has no other open item that `user` may see."""
    if item.wave_id is None:
        return True
    others = wave_part(user, item.wave_id).narrowed("item.message_id <> %(id)s", id=item.pk)
    return others.is_empty()


def lock_wave(wave_id: int | None) -> None:
    """Keep everybody else from the wave and from adding to it."""
    list(Wave.objects.select_for_update(of=("self",)).filter(pk=wave_id or 0))


def lock_for_all(user: User, item_id: int, now: datetime) -> list[int]:
    """Lock the wave of an item and all its open members; returns the others' ids.

    Empty, and nothing locked, when the item is alone. The wave first, then items by their ids:
    everybody who deals with several of them keeps to that order. A member that somebody else has
    open stays theirs: an undo, or a lead's choice, may have left them one of a wave.

    Raises:
        ReviewItem.DoesNotExist: There is no such item.
    """
    item = ReviewItem.objects.only("pk", "wave_id").get(pk=item_id)
    if is_alone(user, item):
        return []
    lock_wave(item.wave_id)
    locked = wave_part(user, item.wave_id).rows(
        "item.message_id, item.leased_by_id, item.lease_until",
        "ORDER BY item.message_id FOR UPDATE OF item",
    )
    return [
        id_
        for id_, holder_id, until in locked
        if id_ != item_id and (holder_id in (None, user.pk) or until is None or until <= now)
    ]


def lock_for_lease(item: ReviewItem, *, wait: bool) -> bool:
    """Keep others from leasing another member meanwhile.

    False when somebody deals with the wave right now and the caller would not wait: who has locked
    an item already must not wait for its wave. One that was forgotten locks nobody out.
    """
    locked = Wave.objects.select_for_update(of=("self",), no_key=True, skip_locked=not wait)
    if locked.filter(pk=item.wave_id or 0).first() is not None or wait:
        return True
    return not Wave.objects.filter(pk=item.wave_id or 0).exists()


def leased_sibling(item: ReviewItem, now: datetime) -> ReviewItem | None:
    """The member of the item's wave that somebody has open: for the wave as a whole."""
    if item.wave_id is None:
        return None
    others = ReviewItem.objects.filter(wave=item.wave_id, state=ReviewState.OPEN)
    return (
        others.filter(leased_by__isnull=False, lease_until__gt=now)
        .exclude(pk=item.pk)
        .select_related("leased_by")
        .first()
    )


@transaction.atomic
def take_out(user: User, item_id: int, member_id: int, *, token: UUID) -> None:
    """Make a member of the wave that `user` has open an item of its own; again, it stays one.

    Raises:
        PermissionDenied: The user may not review.
        ReviewItem.DoesNotExist: There is no such item, or no such open member.
        LeaseLostError: The user doesn't have the wave.
        ItemWithdrawnError: The member is not open any more.
    """
    require(user, Permission.REVIEW)
    wave_id = ReviewItem.objects.values_list("wave_id", flat=True).get(pk=item_id)
    lock_wave(wave_id)
    locked = ReviewItem.objects.select_for_update(of=("self",)).order_by("pk")
    both = {item.pk: item for item in locked.filter(pk__in=[item_id, member_id])}
    item, member = both[item_id], both.get(member_id)
    if item.leased_by_id != user.pk or item.lease_token != token:
        raise LeaseLostError(item.leased_by)
    if member is None:
        raise ReviewItem.DoesNotExist
    if member.state != ReviewState.OPEN:
        raise ItemWithdrawnError
    if wave_id is None or member.wave_id != wave_id:
        return  # it is out already
    member.wave = None
    member.version += 1
    member.save(update_fields=["wave", "version"])
    record(
        actor=Actor.of_user(user),
        action="review.taken_out",
        target_type="review_item",
        target_id=member.pk,
        before={"wave": wave_id},
    )
    announce("reopened", [member.pk])


def leave(item_ids: Sequence[int]) -> None:
    """Take items, whose texts are erased, out of their waves; the caller has locked both.

    A wave keeps the print of its first text, which may be one of theirs. So it gets that of the
    oldest open member that is left, and is forgotten when there is none: a later copy starts anew.
    """
    items = ReviewItem.objects.filter(pk__in=item_ids, wave__isnull=False)
    left = set(items.values_list("wave", flat=True))
    items.update(wave=None)
    for wave in Wave.objects.filter(pk__in=left).order_by("pk"):
        members = ReviewItem.objects.filter(wave=wave, state=ReviewState.OPEN).order_by("pk")
        first = members.select_related("message").first()
        printed = None if first is None else prints([essence(as_read([first.message.text])[0])])[0]
        if printed is None:
            _forget([wave.pk])
        elif printed.signature != bytes(wave.signature):
            _print_anew(wave, printed)


def _print_anew(wave: Wave, printed: Print) -> None:
    WaveBand.objects.filter(band__in=wave.bands, wave_id=wave.pk).delete()
    wave.signature, wave.bands = printed.signature, list(printed.bands)
    wave.save(update_fields=["signature", "bands"])
    WaveBand.objects.bulk_create(
        [WaveBand(band=band, wave_id=wave.pk) for band in set(printed.bands)]
    )


def forget_old(*, limit: int = FORGET_BATCH) -> int:
    """Drop old waves in which nobody waits; returns how many. A later copy starts a new one."""
    now = timezone.now()
    waiting = ReviewItem.objects.filter(wave=OuterRef("pk"), state=ReviewState.OPEN)
    old = (
        Wave.objects.filter(opened_at__lt=now - KEPT)
        .exclude(Exists(waiting))
        .exclude(joint__joins_until__gt=now)
        .order_by("opened_at")
    )
    with transaction.atomic():
        locked = old.select_for_update(skip_locked=True, of=("self",))
        ids = list(locked.values_list("pk", flat=True)[:limit])
        _forget(ids)
    return len(ids)


def _forget(wave_ids: Sequence[int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_BANDS, [list(wave_ids)])
    Wave.objects.filter(pk__in=wave_ids).delete()
