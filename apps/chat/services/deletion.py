"""Deletion: final, idempotent, and remembered for revisions that have not come yet."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from apps.audit.services import Actor, record
from apps.chat.locks import lock_groups
from apps.chat.models import CHUNK_ID_BITS, Chunk, Deletion, Group, Message


@dataclass(frozen=True, slots=True)
class Deleted:
    """`is_new` is False when the message had been deleted before."""

    is_new: bool
    message_ids: list[int]


@transaction.atomic
def delete_message(*, group: str, external_id: str, actor: Actor) -> Deleted:
    """Delete every revision of a message, those included that are still to come.

    The message need not exist: backends deliver out of order, and a deletion that overtakes its
    message has to hold. The rows stay (what was decided about them is on record), marked.

    Args:
        group: the backend's id of the group; made when unknown.
        external_id: the backend's id of the message.
        actor: who deletes, for the audit record.
    """
    lock_groups([group])
    group_row, _ = Group.objects.get_or_create(external_id=group)
    revisions = Message.objects.filter(group=group_row, external_id=external_id)
    message_ids = list(revisions.order_by("revision").values_list("id", flat=True))
    wait_for_verdicts(message_ids)
    now = timezone.now()
    deletion, is_new = Deletion.objects.get_or_create(
        group=group_row, external_id=external_id, defaults={"deleted_at": now}
    )
    if not is_new:
        return Deleted(is_new=False, message_ids=message_ids)
    revisions.filter(deleted_at=None).update(deleted_at=now)
    record(
        actor=actor,
        action="message.deleted",
        target_type="message",
        target_id=message_ids[-1] if message_ids else f"deletion-{deletion.pk}",
        after={"group": group_row.pk, "message_ids": message_ids},
    )
    return Deleted(is_new=True, message_ids=message_ids)


def wait_for_verdicts(message_ids: list[int]) -> None:
    """Lock the chunks: whoever stores verdicts holds them, and then looks for deletions.

    So either the deletion is seen and no verdict stored, or the verdict, with all that follows
    from it, is there before we go on.
    """
    numbers = sorted({id_ >> CHUNK_ID_BITS for id_ in message_ids})
    list(Chunk.objects.select_for_update().filter(pk__in=numbers).order_by("pk"))
