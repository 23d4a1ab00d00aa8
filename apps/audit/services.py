"""Writing the audit record. Call inside the transaction of the change itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import ApiKey, User
from apps.audit.models import ActorKind, AuditEvent

# What changed, its state before and after.
Change = tuple[object, dict[str, Any] | None, dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changed something."""

    kind: ActorKind
    id: int | None
    name: str

    @classmethod
    def of_user(cls, user: User) -> Actor:
        return cls(ActorKind.USER, user.pk, user.get_username())

    @classmethod
    def of_key(cls, key: ApiKey) -> Actor:
        return cls(ActorKind.API_KEY, key.pk, key.name)

    @classmethod
    def system(cls, name: str) -> Actor:
        return cls(ActorKind.SYSTEM, None, name)


def record(
    *,
    actor: Actor,
    action: str,
    target_type: str,
    target_id: object,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEvent:
    """Append one event, `action` being `thing.verbed`. Never pass message text."""
    event = _event(actor, action, target_type, (target_id, before, after))
    event.save(force_insert=True)
    return event


def record_many(
    *,
    actor: Actor,
    action: str,
    target_type: str,
    changes: Sequence[Change],
) -> None:
    """Append one event a thing that changed alike: `(target_id, before, after)` each."""
    AuditEvent.objects.bulk_create(_event(actor, action, target_type, change) for change in changes)


def _event(actor: Actor, action: str, target_type: str, change: Change) -> AuditEvent:
    target_id, before, after = change
    return AuditEvent(
        actor_kind=actor.kind,
        actor_id=actor.id,
        actor_name=actor.name,
        action=action,
        target_type=target_type,
        target_id=str(target_id),
        before=before,
        after=after,
    )
