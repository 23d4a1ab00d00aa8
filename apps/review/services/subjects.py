"""The message that somebody outside speaks about."""

from __future__ import annotations

from dataclasses import dataclass

from apps.chat.models import Message
from apps.review.errors import NoSuchMessageError


@dataclass(frozen=True, slots=True)
class Subject:
    """A message by our id, or by its backend's ids of group and message."""

    message_id: int | None = None
    group: str = ""
    external_id: str = ""


def newest_revision(subject: Subject) -> Message:
    """The message as it stands in the chat now, locked until the caller's transaction ends.

    Else what is taken from its text, to find it by, could be written after it was erased.

    Raises:
        NoSuchMessageError: There is none, or it was deleted.
    """
    if subject.message_id is not None:
        named = Message.objects.filter(pk=subject.message_id).first()
        if named is None:
            raise NoSuchMessageError
        revisions = Message.objects.filter(group_id=named.group_id, external_id=named.external_id)
    else:
        revisions = Message.objects.filter(
            group__external_id=subject.group, external_id=subject.external_id
        )
    locked = revisions.select_for_update(of=("self",), no_key=True)
    newest = locked.order_by("-revision").first()
    if newest is None:
        raise NoSuchMessageError
    if newest.deleted_at is not None:
        raise NoSuchMessageError(is_deleted=True)
    return newest
