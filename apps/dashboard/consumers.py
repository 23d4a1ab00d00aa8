"""The operator page's WebSocket, and what its frames carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from django.conf import settings
from django.template.loader import render_to_string
from django.utils import translation

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.core import realtime
from apps.dashboard import feed, selectors
from apps.dashboard.presenting import figures_context
from apps.scoring.feed import ERASED, shown_ids

P = ParamSpec("P")
T = TypeVar("T")

# The view of the verdicts of those who may read messages: `realtime.PLAIN` has no text in it.
WITH_TEXT = "text"
# Points repeated in each frame: one is new every five seconds, the ones before may have changed.
POINTS_SENT = 4


class OperateConsumer(realtime.LiveConsumer):
    """Verdicts as they come, the charts' new points, and with `?lang=` the figures themselves."""

    topics: Sequence[str] = (realtime.VERDICTS, realtime.OPERATE)

    async def connect(self) -> None:
        asked = parse_qs(self.scope.get("query_string", b"").decode("ascii", "replace"))
        language = asked.get("lang", [""])[0]
        if language in dict(settings.LANGUAGES):
            self.topics = (*self.topics, figures_topic(language))
        await super().connect()

    async def authorize(self) -> bool:
        user = await User.objects.filter(pk=self.scope["user"].pk).afirst()
        if user is None or not may(user, Permission.OPERATE_VIEW):
            return False
        view = WITH_TEXT if feed.may_read_messages(user) else realtime.PLAIN
        self.views = {realtime.VERDICTS: view}
        return True


async def _in_thread(read: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Not in the one thread in which all sockets' database code runs: frames would wait there
    behind each other, and behind hundreds of viewers whose rights are read anew."""
    made: T = await database_sync_to_async(read, thread_sensitive=False)(*arguments, **named)
    return made


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sample of a frame's new verdicts, and how many there were."""

    count: int
    rows: Sequence[feed.Row]


async def read_verdicts(events: Sequence[realtime.Event]) -> Sampled:
    """A frame's content, read once for all who watch."""
    verdicts = [event for event in events if event.kind != ERASED]
    rows = await _in_thread(feed.rows_of, shown_ids(verdicts)) if verdicts else []
    return Sampled(sum(event.count for event in verdicts), rows)


def with_text(sampled: Sampled) -> dict[str, Any]:
    return _verdicts(sampled.count, sampled.rows)


def without_text(sampled: Sampled) -> dict[str, Any]:
    return _verdicts(sampled.count, [row.without_text() for row in sampled.rows])


def _verdicts(count: int, rows: Sequence[feed.Row]) -> dict[str, Any]:
    return {"count": count, "rows": [row.to_json() for row in rows]}


VERDICT_VIEWS: dict[str, realtime.View] = {realtime.PLAIN: without_text, WITH_TEXT: with_text}


def figures_topic(language: str) -> str:
    return f"figures.{language}"


def tell_sampled() -> None:
    """On commit: the figures are new, in every language that somebody watches in."""
    realtime.publish(realtime.OPERATE, "sampled")
    for language, _ in settings.LANGUAGES:
        realtime.publish(figures_topic(language), "sampled")


def figures_in(language: str) -> realtime.FrameBuilder:
    """What fills a frame with the page's figures, rendered once for all who watch.

    Each page fetching them every second cost the web process 11 ms a page and second; no figure
    depends on who looks, only on the language.
    """

    async def build(events: Sequence[realtime.Event]) -> dict[str, str]:
        return {"html": await _in_thread(_figures_html, language)}

    return build


def _figures_html(language: str) -> str:
    with translation.override(language):
        return render_to_string("dashboard/figures.html", figures_context())


async def chart_points(events: Sequence[realtime.Event]) -> list[dict[str, Any]]:
    """A frame's content: the newest points of the charts."""
    overview = await _in_thread(selectors.overview)
    return [asdict(point) for point in overview.history[-POINTS_SENT:]]
