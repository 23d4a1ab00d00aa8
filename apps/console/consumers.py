"""The policy page's WebSocket."""

from __future__ import annotations

from channels.db import database_sync_to_async

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.core import realtime


class PoliciesConsumer(realtime.LiveConsumer):
    """Which policies changed. The page fetches what it shows."""

    topics = (realtime.POLICIES,)

    async def authorize(self) -> bool:
        allowed: bool = await database_sync_to_async(_may_watch)(self.scope["user"].pk)
        return allowed


def _may_watch(user_id: int | None) -> bool:
    user = None if user_id is None else User.objects.filter(pk=user_id).first()
    return user is not None and may(user, Permission.POLICY_VIEW)
