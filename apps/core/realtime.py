"""Telling browsers what changed: from any process, merged, numbered, never the truth itself.

    service, in its transaction ──publish()──on commit──▶ Publisher (one thread a process)
        ──channel layer, twenty messages a second──▶ Hub (one a web process)
        ──frames, four a second a topic at most──▶ LiveConsumer ──▶ browser

Channel layers drop messages silently, so each hop is numbered. A publisher numbers what it sends
and repeats its last numbers every few seconds; a hub that misses one skips a frame number; a
browser that sees `seq` jump, or `epoch` change, refetches. So there is one rule for the browser,
whatever was lost, and nothing needs to be stored.

Events carry ids and counts, never message text: a topic whose frames shall show more registers a
frame builder, which reads it from PostgreSQL once a frame for all viewers.

A frame: `{"topic", "epoch", "seq", "sent_s", "events": [{"kind", "count", "ids", "payload",
"since_s"}], "content"}`. Events of one kind are merged: counts add up, the newest `IDS_KEPT` ids
and the last payload stay, `since_s` is the Unix time of the first one's commit, `sent_s` that of
the frame itself. The first frame after subscribing has no events, gives the numbers to go on from,
and says in `quiet_s` for how long nothing was heard of the topic: a page that is older than that
was made before the last news.

A frame is encoded once, down to the bytes of the socket, and those bytes go to every viewer whose
server takes them as they are (`WIRE_EXTENSION`, `moderation_site/sockets.py`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import struct
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from channels.generic.websocket import AsyncJsonWebsocketConsumer
from channels.layers import get_channel_layer
from django.db import transaction

log = logging.getLogger(__name__)

VERDICTS = "verdicts"
REVIEW = "review"
POLICIES = "policies"
OPERATE = "operate"

# Per kind and frame; the count says how many there were.
IDS_KEPT = 100
# Together the next two are the oldest that anything in a frame can be, but for the work itself.
PUBLISH_EVERY_S = 0.05
BEACON_EVERY_S = 2.0
FRAME_EVERY_S = 0.25
# Frames that may wait for one viewer: at four a second, about four seconds of a stalled browser.
VIEWER_QUEUE_FRAMES = 16
AUTHORIZE_AGAIN_AFTER_S = 60.0
_RETRY_FIRST_S, _RETRY_MAX_S = 0.1, 2.0
_CANCEL_AGAIN_S = 0.1
_GROUP = "live"
# Processes come and go; the oldest is forgotten.
_SOURCES_KEPT = 1000

CLOSE_FORBIDDEN = 4403
CLOSE_STALLED = 4408
# May watch on, but sees another view: the browser comes back for it.
CLOSE_CHANGED = 4409

# In a connection's scope: what writes the bytes of a frame to its socket, or gives False.
WIRE_EXTENSION = "chatwarden.wire"

Payload = Mapping[str, Any] | None


@dataclass(slots=True)
class Event:
    """All that happened of one kind since the last frame. `ids` are oldest first."""

    kind: str
    count: int = 0
    ids: list[int] = field(default_factory=list)
    payload: Payload = None
    # When the first of them was committed, by the clock of the process that did it.
    since_s: float = math.inf

    def merge(self, other: Event) -> None:
        self.count += other.count
        self.ids = [*self.ids, *other.ids][-IDS_KEPT:]
        self.since_s = min(self.since_s, other.since_s)
        if other.payload is not None:
            self.payload = other.payload

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


Pending = dict[str, Event]


def _merge_into(pending: Pending, event: Event) -> None:
    pending.setdefault(event.kind, Event(event.kind)).merge(event)


def publish(
    topic: str,
    kind: str,
    *,
    ids: Sequence[int] = (),
    count: int | None = None,
    payload: Payload = None,
) -> None:
    """Tell all viewers of `topic`, once the current transaction has committed.

    Never raises and never waits: when Redis is away, events are merged until it is back.

    Args:
        topic: what a consumer subscribes to.
        kind: what happened, such as `decided`; events of one kind are merged.
        ids: rows that changed, oldest first; past `IDS_KEPT` the oldest are left out.
        count: how many changed, when `ids` is a sample; else the number of ids, at least 1.
        payload: small JSON; of merged events the last one's stays. Never message text.
    """
    kept = tuple(ids)[-IDS_KEPT:]
    happened = max(len(ids), 1) if count is None else count
    event = Event(kind, happened, list(kept), payload)
    transaction.on_commit(lambda: _publisher().offer(topic, event))


_push_observers: list[Callable[[float], None]] = []


def observe_pushes(observe: Callable[[float], None]) -> None:
    """Have `observe` told, from the publisher's thread, how many milliseconds each push took:
    from the first event's commit to when the channel layer had it.
    """
    _push_observers.append(observe)


# ---------- the sending side ----------


class Publisher:
    """Merges this process's events and sends them from a thread with an event loop of its own.

    The channel layer is asynchronous and ties its connections to a loop; `async_to_sync` would
    make a loop and a connection for every event.
    """

    def __init__(self) -> None:
        self.source = uuid.uuid4().hex[:12]
        self._lock = threading.Lock()
        self._pending: dict[str, Pending] = {}
        self._numbers: dict[str, int] = {}
        self._oldest_s = 0.0
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_failing = False
        threading.Thread(target=self._main, name="realtime-publisher", daemon=True).start()

    def offer(self, topic: str, event: Event) -> None:
        """Of something that was committed just now."""
        event.since_s = time.time()
        with self._lock:
            if not self._pending:
                self._oldest_s = time.monotonic()
            _merge_into(self._pending.setdefault(topic, {}), event)
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._wake.set)

    def _main(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            if self._pending:
                self._wake.set()
        while True:
            await self._wait()
            message, oldest_s = self._take()
            await self._send_until_done(message)
            if message["topics"]:
                self._tell_observers((time.monotonic() - oldest_s) * 1000)
            await asyncio.sleep(PUBLISH_EVERY_S)

    def _tell_observers(self, push_ms: float) -> None:
        for observe in _push_observers:
            observe(push_ms)

    async def _wait(self) -> None:
        """Until there is something, or the beacon is due: it shows hubs what they missed."""
        try:
            await asyncio.wait_for(self._wake.wait(), BEACON_EVERY_S)
        except TimeoutError:
            return
        self._wake.clear()

    def _take(self) -> tuple[dict[str, Any], float]:
        """What is to be sent, and when its first event was offered."""
        with self._lock:
            taken, self._pending = self._pending, {}
            oldest_s = self._oldest_s
        for topic in taken:
            self._numbers[topic] = self._numbers.get(topic, 0) + 1
        message = {
            "source": self.source,
            "numbers": dict(self._numbers),
            "topics": {t: [e.to_json() for e in p.values()] for t, p in taken.items()},
        }
        return message, oldest_s

    async def _send_until_done(self, message: dict[str, Any]) -> None:
        delay_s = _RETRY_FIRST_S
        while not await self._send(message):
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _RETRY_MAX_S)

    async def _send(self, message: dict[str, Any]) -> bool:
        layer = get_channel_layer()
        assert layer is not None
        try:
            await layer.group_send(_GROUP, {"type": "live.message", **message})
        except Exception as error:  # noqa: BLE001  (a thread's edge: whatever failed, try again)
            if not self._is_failing:
                log.warning("Live updates are held back: %s", type(error).__name__)
            self._is_failing = True
            return False
        if self._is_failing:
            log.warning("Live updates go out again")
        self._is_failing = False
        return True


_publishers: dict[int, Publisher] = {}
_publishers_lock = threading.Lock()


def _publisher() -> Publisher:
    """This process's own: a forked child has no thread of its parent's."""
    found = _publishers.get(os.getpid())
    if found is not None:
        return found
    with _publishers_lock:
        if os.getpid() not in _publishers:
            _publishers[os.getpid()] = Publisher()
        return _publishers[os.getpid()]


def _forget_after_fork() -> None:
    global _publishers_lock
    _publishers_lock = threading.Lock()
    _publishers.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


# ---------- the receiving side ----------

FrameBuilder = Callable[[Sequence[Event]], Awaitable[Any]]
# From what a builder made to the JSON that the viewers of one view may see.
View = Callable[[Any], Any]
# The view of whoever asks for none.
PLAIN = ""


@dataclass(frozen=True, slots=True)
class _Content:
    """How the content of a topic's frames is made, and what each view shows of it."""

    build: FrameBuilder
    views: Mapping[str, View]


def _whole(content: Any) -> Any:
    return content


_contents: dict[str, _Content] = {}


def register_frame_builder(
    topic: str, build: FrameBuilder, *, views: Mapping[str, View] | None = None
) -> None:
    """Let `build` make the `content` of each frame of `topic`, once for all viewers.

    Call it from `AppConfig.ready()`. It runs in the web process's event loop.

    Args:
        topic: whose frames.
        build: what is to be shown.
        views: where not all may see all of it: by name, what the viewers of each view are sent.
            `PLAIN` is what a viewer gets who names none, so it has to be the least. Each view is
            encoded once a frame, and only while somebody has it.
    """
    _contents[topic] = _Content(build, views or {PLAIN: _whole})


@dataclass(frozen=True, slots=True)
class Frame:
    """One message to browsers, and the bytes that it is on a WebSocket: unmasked, not compressed,
    so the same for all of them (RFC 6455, 5.2)."""

    text: str
    wire: bytes

    @classmethod
    def of(cls, text: str) -> Self:
        data = text.encode()
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", _FINAL_TEXT, size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", _FINAL_TEXT, 126, size)
        else:
            head = struct.pack("!BBQ", _FINAL_TEXT, 127, size)
        return cls(text, head + data)


_FINAL_TEXT = 0x81


class Viewer:
    """What waits for one browser. `stalled` is set when it is too far behind to be worth it."""

    def __init__(self) -> None:
        self.stalled = asyncio.Event()
        # Gives False where the bytes can't go out at once; None where the server has no such way.
        self.write: Callable[[bytes], bool] | None = None
        self._frames: asyncio.Queue[Frame] = asyncio.Queue(VIEWER_QUEUE_FRAMES)
        self._is_waiting_to_send = False

    @property
    def waiting(self) -> int:
        return self._frames.qsize()

    def offer(self, frame: Frame) -> None:
        if self._write_at_once(frame):
            return
        try:
            self._frames.put_nowait(frame)
        except asyncio.QueueFull:
            self.stalled.set()

    def _write_at_once(self, frame: Frame) -> bool:
        """Not past one that waits: frames are numbered, and come in order."""
        is_behind = self._is_waiting_to_send or not self._frames.empty()
        return self.write is not None and not is_behind and self.write(frame.wire)

    async def send_waiting(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Send what could not go out at once, for as long as this is awaited."""
        while True:
            frame = await self._frames.get()
            self._is_waiting_to_send = True
            await send(frame.text)
            self._is_waiting_to_send = False


class Feed:
    """One topic in one web process: numbers its frames and hands each to every viewer."""

    def __init__(self, topic: str, epoch: str) -> None:
        self.topic = topic
        # By the view that they have of it.
        self.viewers: dict[Viewer, str] = {}
        self._epoch = epoch
        self._seq = 0
        self._pending: Pending = {}
        self._has_gap = False
        self._wake = asyncio.Event()
        self._sent_at_s = -math.inf
        self._task = asyncio.create_task(self._run(), name=f"live-feed-{topic}")

    def add(self, viewer: Viewer, view: str, quiet_s: float) -> None:
        viewer.offer(self._encode(view, (), None, quiet_s=quiet_s))
        self.viewers[viewer] = view

    def take_in(self, events: Iterable[Mapping[str, Any]]) -> None:
        for event in events:
            _merge_into(self._pending, Event(**event))
        self._wake.set()

    def note_gap(self) -> None:
        self._has_gap = True
        self._wake.set()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Takes what came at a steady pace, so that the time of making a frame is not waited for
        twice; yet no two frames go out closer together than that."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            taken_at_s = time.monotonic()
            await self._send_frame()
            await _sleep_until(taken_at_s + FRAME_EVERY_S)

    async def _send_frame(self) -> None:
        events, self._pending = list(self._pending.values()), {}
        content = await self._content(events)
        await _sleep_until(self._sent_at_s + FRAME_EVERY_S)
        # Nobody comes or goes between here and the last offer.
        shown = self._shown(content)
        self._sent_at_s = time.monotonic()
        self._seq += 2 if self._has_gap else 1
        self._has_gap = False
        frames = {view: self._encode(view, events, each) for view, each in shown.items()}
        for viewer, view in self.viewers.items():
            viewer.offer(frames[view])

    async def _content(self, events: Sequence[Event]) -> Any:
        made = _contents.get(self.topic)
        if made is None or not events:
            return None
        try:
            return await made.build(events)
        except Exception:
            log.exception("A live frame of %s could not be filled", self.topic)
            # The viewers refetch, and see in the page itself what is wrong.
            self._has_gap = True
            return None

    def _shown(self, content: Any) -> dict[str, Any]:
        """What the frame says in each view that somebody has."""
        watched = set(self.viewers.values())
        if content is None:
            return dict.fromkeys(watched)
        try:
            views = _contents[self.topic].views
            return {view: views[view](content) for view in watched}
        except Exception:
            log.exception("A live frame of %s could not be shown", self.topic)
            self._has_gap = True
            return dict.fromkeys(watched)

    def _encode(self, view: str, events: Sequence[Event], content: Any, **more: float) -> Frame:
        text = json.dumps(
            {
                "topic": self.topic,
                # Who comes back with another view than before has missed what that one shows.
                "epoch": f"{self._epoch}.{view}" if view else self._epoch,
                "seq": self._seq,
                "sent_s": round(time.time(), 3),
                "events": [event.to_json() for event in events],
                "content": content,
                **more,
            },
            separators=(",", ":"),
            ensure_ascii=False,
        )
        return Frame.of(text)


async def _sleep_until(at_s: float) -> None:
    await asyncio.sleep(max(0.0, at_s - time.monotonic()))


class Hub:
    """This web process's one subscription to the channel layer, shared by all its viewers."""

    def __init__(self) -> None:
        self._epoch = uuid.uuid4().hex[:8]
        self._feeds: dict[str, Feed] = {}
        self._seen: dict[str, dict[str, int]] = {}
        self._heard_at_s: dict[str, float] = {}
        self._listening_since_s = math.inf
        self._task = asyncio.create_task(self._run(), name="live-hub")

    def subscribe(self, viewer: Viewer, topic: str, view: str) -> None:
        if topic not in self._feeds:
            self._feeds[topic] = Feed(topic, self._epoch)
        self._feeds[topic].add(viewer, view, self._quiet_s(topic))

    def _quiet_s(self, topic: str) -> float:
        """How long the topic had no news for sure: nobody knows what was before we listened."""
        heard_at_s = max(self._heard_at_s.get(topic, 0.0), self._listening_since_s)
        return max(time.monotonic() - heard_at_s, 0.0)

    async def unsubscribe(self, viewer: Viewer) -> None:
        """Forget a viewer; feeds nobody looks at stop."""
        for topic, feed in list(self._feeds.items()):
            feed.viewers.pop(viewer, None)
            if not feed.viewers:
                del self._feeds[topic]
                await feed.stop()

    @property
    def is_idle(self) -> bool:
        return not self._feeds

    async def stop(self) -> None:
        # Again and again: one that comes while redis-py connects is lost there, and the last viewer
        # would wait for a hub that listens for ever.
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CANCEL_AGAIN_S)

    async def _run(self) -> None:
        delay_s = _RETRY_FIRST_S
        while True:
            try:
                await self._listen()
            except Exception as error:  # noqa: BLE001  (a task's edge: try again)
                log.warning("The live hub lost its channel: %s", type(error).__name__)
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _RETRY_MAX_S)

    async def _listen(self) -> None:
        layer = get_channel_layer()
        assert layer is not None
        channel = await layer.new_channel()
        try:
            await layer.group_add(_GROUP, channel)
            self._listening_since_s = time.monotonic()
            # Whatever was sent before this instant is missed.
            for feed in self._feeds.values():
                feed.note_gap()
            while True:
                self._take_in(await layer.receive(channel))
        finally:
            await layer.group_discard(_GROUP, channel)

    def _take_in(self, message: Mapping[str, Any]) -> None:
        seen = self._seen_of(message)
        for topic, number in message["numbers"].items():
            events = message["topics"].get(topic)
            has_gap = number != seen.get(topic, 0) + (events is not None)
            seen[topic] = number
            if has_gap or events is not None:
                self._heard_at_s[topic] = time.monotonic()
            feed = self._feeds.get(topic)
            if feed is None:
                continue
            if has_gap:
                feed.note_gap()
            if events is not None:
                feed.take_in(events)

    def _seen_of(self, message: Mapping[str, Any]) -> dict[str, int]:
        """The last numbers of a source. One that was there before us starts without a gap."""
        source = message["source"]
        if source not in self._seen:
            we_are_new = time.monotonic() - self._listening_since_s < 2 * BEACON_EVERY_S
            before = {t: n - (t in message["topics"]) for t, n in message["numbers"].items()}
            self._seen[source] = before if we_are_new else {}
            if len(self._seen) > _SOURCES_KEPT:
                del self._seen[next(iter(self._seen))]
        return self._seen[source]


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def _hub() -> Hub:
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]


def viewers_here() -> int:
    """How many browsers watch through this process."""
    feeds = [feed for hub in _hubs.values() for feed in hub._feeds.values()]
    return len({viewer for feed in feeds for viewer in feed.viewers})


async def _leave(viewer: Viewer) -> None:
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None:
        return
    await hub.unsubscribe(viewer)
    if hub.is_idle and _hubs.get(loop) is hub:
        del _hubs[loop]
        await hub.stop()


class LiveConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """Base of the console's WebSockets: says who may watch, and what.

    Set `topics`; implement `authorize`, which is asked again every minute, so that a person who was
    signed out or lost a role stops seeing things. What a browser sends is left unread.
    `authorize` may set `views`, by topic, for more than what all may see; who then gets another
    answer than at first is sent away to connect anew.
    """

    topics: Sequence[str] = ()
    views: Mapping[str, str] = {}
    # The hub listens for all: a channel of its own would be a subscription in Redis a browser.
    channel_layer_alias = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._viewer = Viewer()
        self._sender: asyncio.Task[None] | None = None
        self._close_code = CLOSE_FORBIDDEN

    async def authorize(self) -> bool:
        """Whether this person may watch `topics`, read anew from the database."""
        raise NotImplementedError

    async def connect(self) -> None:
        is_welcome = await self.authorize()
        # Also who may not: a browser is not told why a handshake was refused, and would take it
        # for a lost line and try for ever.
        await self.accept()
        if not is_welcome:
            await self.close(CLOSE_FORBIDDEN)
            return
        self._viewer.write = self.scope.get("extensions", {}).get(WIRE_EXTENSION)
        for topic in self.topics:
            _hub().subscribe(self._viewer, topic, self.views.get(topic, PLAIN))
        self._sender = asyncio.create_task(self._serve(), name="live-viewer")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Our pages say nothing, so this is somebody's own program: it can't make us fail."""

    async def disconnect(self, code: int) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        await _leave(self._viewer)

    async def _serve(self) -> None:
        tasks = [
            asyncio.create_task(step())
            for step in (self._send_frames, self._watch_rights, self._viewer.stalled.wait)
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # Out of the feeds first: closing a stalled socket waits for the browser.
        await _leave(self._viewer)
        await self.close(CLOSE_STALLED if self._viewer.stalled.is_set() else self._close_code)

    async def _send_frames(self) -> None:
        await self._viewer.send_waiting(self.send)

    async def _watch_rights(self) -> None:
        """Returns once this person may no longer watch, or may watch something else."""
        views = self.views
        while True:
            await asyncio.sleep(AUTHORIZE_AGAIN_AFTER_S)
            if not await self.authorize():
                return
            if self.views != views:
                self._close_code = CLOSE_CHANGED
                return
