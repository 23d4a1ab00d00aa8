"""The operator page's WebSocket, and what its frames carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from channels.db import database_sync_to_async

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.core import realtime
from apps.dashboard import feed, selectors
from apps.scoring.feed import shown_ids

# Points repeated in each frame: one is new every five seconds, the ones before may have changed.
POINTS_SENT = 4


class OperateConsumer(realtime.LiveConsumer):
    """Verdicts as they come, and a hint a second that the figures are new."""

    topics = (realtime.VERDICTS, realtime.OPERATE)

    async def authorize(self) -> bool:
        user = await User.objects.filter(pk=self.scope["user"].pk).afirst()
        return user is not None and may(user, Permission.OPERATE_VIEW)


async def verdict_rows(events: Sequence[realtime.Event]) -> dict[str, Any]:
    """A frame's content: a sample of the new verdicts and how many there were."""
    rows = await database_sync_to_async(feed.rows_of)(shown_ids(events))
    return {
        "count": sum(event.count for event in events),
        "rows": [row.to_json() for row in rows],
    }


async def chart_points(events: Sequence[realtime.Event]) -> list[dict[str, Any]]:
    """A frame's content: the newest points of the charts."""
    overview = await database_sync_to_async(selectors.overview)()
    return [asdict(point) for point in overview.history[-POINTS_SENT:]]
