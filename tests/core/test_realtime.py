"""Live updates over a real Redis and a real WebSocket: merged, numbered, nothing silently lost."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import redis.asyncio
import uvicorn
from channels.layers import channel_layers, get_channel_layer
from channels.routing import URLRouter
from django.conf import settings as django_settings
from django.db import transaction
from django.urls import re_path
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.protocol import Protocol, Side

from apps.core import realtime
from apps.core.realtime import Event, Frame, LiveConsumer, Publisher, Viewer, publish
from moderation_site.sockets import WireProtocol

PATIENCE_S = 30.0
TOPIC = "kitchen"


class Kitchen(LiveConsumer):
    topics = (TOPIC,)
    is_welcome = True

    async def authorize(self) -> bool:
        return type(self).is_welcome


@pytest.fixture(params=[WireProtocol, "websockets-sansio"], ids=["wire", "plain"])
async def address(
    request: pytest.FixtureRequest, stores: object, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    """A web process in this test's own event loop, with bytes that are shared and without."""
    monkeypatch.setattr(Kitchen, "is_welcome", True)
    app = URLRouter([re_path("live$", Kitchen.as_asgi())])
    config = uvicorn.Config(
        app,
        port=0,
        log_level="warning",
        lifespan="off",
        ws=request.param,
        ws_per_message_deflate=request.param is not WireProtocol,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"ws://127.0.0.1:{port}/live"
    server.should_exit = True
    await serving
    for layer in channel_layers.backends.values():
        await layer.flush()


async def next_frame(socket: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))
    return frame


async def settled(socket: ClientConnection) -> int:
    """Past the greeting and the gap a starting hub tells of; gives the last number."""
    greeting = await next_frame(socket)
    assert (greeting["topic"], greeting["events"]) == (TOPIC, [])
    first = await next_frame(socket)
    assert first["seq"] == greeting["seq"] + 2
    return int(first["seq"])


def say(kind: str, *ids: int, **rest: Any) -> None:
    # What `publish` does on commit: these tests have no database.
    realtime._publisher().offer(TOPIC, Event(kind, max(1, len(ids)), list(ids), rest or None))


async def test_event_reaches_the_viewer_with_ids_and_count(address: str) -> None:
    async with connect(address) as socket:
        number = await settled(socket)
        before_s = time.time()
        say("done", 4, 7)
        frame = await next_frame(socket)
    assert frame["seq"] == number + 1
    (event,) = frame["events"]
    since_s = event.pop("since_s")
    assert event == {"kind": "done", "count": 2, "ids": [4, 7], "payload": None}
    assert before_s <= since_s <= time.time()


async def test_many_events_are_few_frames_without_a_gap(address: str) -> None:
    async with connect(address) as socket:
        number = await settled(socket)
        began_s = time.monotonic()
        for id_ in range(300):
            say("done", id_)
            await asyncio.sleep(0)
        seen, frames = 0, 0
        while seen < 300:
            frame = await next_frame(socket)
            frames += 1
            assert frame["seq"] == number + frames
            (event,) = frame["events"]
            assert len(event["ids"]) <= realtime.IDS_KEPT
            seen += event["count"]
    assert seen == 300
    # As many as the pace allows, on a machine that is ever so slow, and one at either end.
    assert frames <= 2 + (time.monotonic() - began_s) / realtime.FRAME_EVERY_S


async def test_all_viewers_get_the_same_frame(address: str) -> None:
    async with connect(address) as one, connect(address) as two:
        await settled(one)
        greeting = await next_frame(two)
        say("done", 1)
        frames = [await next_frame(one)]
        while not frames[-1]["events"]:
            frames.append(await next_frame(one))
        other = await next_frame(two)
        while not other["events"]:
            other = await next_frame(two)
        assert other == frames[-1]
        assert other["epoch"] == greeting["epoch"]


@pytest.mark.parametrize(
    "sent",
    ["no JSON", "{}", "null", '{"topic": "kitchen"}', '{"a":' * 50_000, b"\x00\xff", ""],
    ids=["text", "object", "null", "wish", "deep", "bytes", "empty"],
)
async def test_what_a_browser_sends_changes_nothing(address: str, sent: str | bytes) -> None:
    async with connect(address) as socket:
        number = await settled(socket)
        await socket.send(sent)
        # Read after what was sent, so the frame below can't have overtaken it.
        await (await socket.ping())
        say("done", 1)
        frame = await next_frame(socket)
    assert (frame["seq"], frame["events"][0]["ids"]) == (number + 1, [1])


async def test_a_viewer_that_leaves_at_once_leaves_nothing_behind(address: str) -> None:
    for _ in range(20):
        async with connect(address):
            pass
    await until(lambda: not any(task.get_name() == "live-hub" for task in asyncio.all_tasks()))


async def send_raw(number: int, events: list[dict[str, Any]] | None) -> None:
    layer = get_channel_layer()
    assert layer is not None
    topics = {} if events is None else {TOPIC: events}
    message = {"type": "live.message", "source": "s", "numbers": {TOPIC: number}, "topics": topics}
    await layer.group_send("live", message)


async def test_message_lost_in_redis_shows_as_a_jump(address: str) -> None:
    one = {"kind": "done", "count": 1, "ids": [1], "payload": None, "since_s": 1.5}
    async with connect(address) as socket:
        number = await settled(socket)
        await send_raw(1, [one])
        assert (await next_frame(socket))["seq"] == number + 1
        await send_raw(3, [one])
        assert (await next_frame(socket))["seq"] == number + 3


async def test_last_message_lost_shows_by_the_beacon(address: str) -> None:
    one = {"kind": "done", "count": 1, "ids": [1], "payload": None, "since_s": 1.5}
    async with connect(address) as socket:
        number = await settled(socket)
        await send_raw(1, [one])
        assert (await next_frame(socket))["seq"] == number + 1
        await send_raw(2, None)
        frame = await next_frame(socket)
    assert (frame["seq"], frame["events"]) == (number + 3, [])


async def test_first_frame_says_for_how_long_nothing_was_heard(address: str) -> None:
    one = {"kind": "done", "count": 1, "ids": [1], "payload": None, "since_s": 1.5}
    async with connect(address) as first:
        await settled(first)
        await send_raw(1, [one])
        heard_s = time.monotonic()
        while not (await next_frame(first))["events"]:
            pass
        async with connect(address) as second:
            quiet_s = (await next_frame(second))["quiet_s"]
    assert 0 <= quiet_s <= time.monotonic() - heard_s


async def test_nobody_knows_what_was_before_the_hub_listened(address: str) -> None:
    asked_s = time.monotonic()
    async with connect(address) as socket:
        quiet_s = (await next_frame(socket))["quiet_s"]
    assert quiet_s <= time.monotonic() - asked_s


async def test_cut_connections_lose_nothing_silently(address: str) -> None:
    async with connect(address) as socket:
        number = await settled(socket)
        say("done", 1)
        assert (await next_frame(socket))["seq"] == number + 1
        store = redis.asyncio.Redis.from_url(django_settings.REDIS_URL)
        for kind in ("normal", "pubsub"):
            await store.client_kill_filter(_type=kind, skipme=True)
        await store.aclose()
        say("done", 2)
        # It comes, or the number jumps: either way the browser knows.
        frame = await next_frame(socket)
        assert frame["seq"] == number + 3 or frame["events"][0]["ids"] == [2]


async def test_viewer_without_the_right_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a code of its own: a refused handshake looks like a lost line to a browser."""
    monkeypatch.setattr(Kitchen, "is_welcome", False)
    async with connect(address) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await next_frame(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == realtime.CLOSE_FORBIDDEN


async def test_viewer_who_loses_the_right_is_shown_out(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realtime, "AUTHORIZE_AGAIN_AFTER_S", 0.05)
    async with connect(address) as socket:
        await settled(socket)
        monkeypatch.setattr(Kitchen, "is_welcome", False)
        with pytest.raises(ConnectionClosed) as closed:
            await next_frame(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == realtime.CLOSE_FORBIDDEN


async def test_content_is_built_once_for_all(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    async def build(events: Sequence[Event]) -> dict[str, int]:
        built.append(len(events))
        return {"of": events[0].count}

    monkeypatch.setattr(realtime, "_contents", {})
    realtime.register_frame_builder(TOPIC, build)
    async with connect(address) as one, connect(address) as two:
        await settled(one)
        say("done", 1, 2, 3)
        for socket in (one, two):
            frame = await next_frame(socket)
            while not frame["events"]:
                frame = await next_frame(socket)
            assert frame["content"] == {"of": 3}
    assert built == [1]


@pytest.fixture
def views(address: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The kitchen's frames have a secret that one view shows; how often each was made."""
    made: dict[str, list[int]] = {"build": [], "plain": [], "cook": []}

    async def build(events: Sequence[Event]) -> dict[str, Any]:
        made["build"].append(events[0].count)
        return {"of": events[0].count, "secret": "saffron"}

    def plain(content: dict[str, Any]) -> dict[str, Any]:
        made["plain"].append(content["of"])
        return {"of": content["of"]}

    def cook(content: dict[str, Any]) -> dict[str, Any]:
        made["cook"].append(content["of"])
        return content

    monkeypatch.setattr(realtime, "_contents", {})
    realtime.register_frame_builder(TOPIC, build, views={realtime.PLAIN: plain, "cook": cook})
    monkeypatch.setattr(Kitchen, "views", {})
    return made


async def told(socket: ClientConnection) -> str:
    """The next frame with something in it, as it came."""
    while True:
        text = await asyncio.wait_for(socket.recv(decode=True), PATIENCE_S)
        if json.loads(text)["events"]:
            return text


async def test_each_viewer_gets_the_view_they_may_see(
    address: str, views: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(address) as guest, connect(address) as other_guest:
        await settled(guest)
        monkeypatch.setattr(Kitchen, "views", {TOPIC: "cook"})
        async with connect(address) as cook:
            await next_frame(cook)
            say("done", 1, 2, 3)
            texts = [await told(socket) for socket in (guest, other_guest, cook)]
    assert [json.loads(text)["content"] for text in texts] == [
        {"of": 3},
        {"of": 3},
        {"of": 3, "secret": "saffron"},
    ]
    assert "saffron" not in texts[0]
    assert texts[0] == texts[1]
    assert views == {"build": [3], "plain": [3], "cook": [3]}


async def test_a_view_that_nobody_has_is_not_made(
    address: str, views: dict[str, list[int]]
) -> None:
    async with connect(address) as guest:
        await settled(guest)
        say("done", 1)
        await told(guest)
    assert views == {"build": [1], "plain": [1], "cook": []}


async def test_another_view_is_another_epoch_so_that_its_viewer_refetches(
    address: str, views: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(address) as guest:
        first = await next_frame(guest)
        monkeypatch.setattr(Kitchen, "views", {TOPIC: "cook"})
        async with connect(address) as cook:
            assert (await next_frame(cook))["epoch"] != first["epoch"]


async def test_view_that_fails_shows_nothing_and_makes_viewers_refetch(
    address: str,
    views: dict[str, list[int]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Kitchen, "views", {TOPIC: "no such view"})
    async with connect(address) as socket:
        number = await settled(socket)
        say("done", 1)
        frame = await next_frame(socket)
    assert (frame["seq"], frame["content"]) == (number + 2, None)
    assert "could not be shown" in caplog.text


async def test_viewer_whose_rights_change_is_sent_to_connect_anew(
    address: str, views: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realtime, "AUTHORIZE_AGAIN_AFTER_S", 0.05)
    monkeypatch.setattr(Kitchen, "views", {TOPIC: "cook"})
    async with connect(address) as socket:
        await next_frame(socket)
        monkeypatch.setattr(Kitchen, "views", {})
        await asyncio.wait_for(socket.wait_closed(), PATIENCE_S)
    assert socket.close_code == realtime.CLOSE_CHANGED


async def test_content_that_fails_makes_viewers_refetch(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def build(events: Sequence[Event]) -> None:
        raise LookupError("the database is away")

    monkeypatch.setattr(realtime, "_contents", {})
    realtime.register_frame_builder(TOPIC, build)
    async with connect(address) as socket:
        number = await settled(socket)
        say("done", 1)
        frame = await next_frame(socket)
    assert (frame["seq"], frame["content"]) == (number + 2, None)
    assert "could not be filled" in caplog.text


async def test_stalled_viewer_is_dropped_and_the_others_go_on(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realtime, "FRAME_EVERY_S", 0.001)
    monkeypatch.setattr(realtime, "PUBLISH_EVERY_S", 0.001)

    async def heavy(events: Sequence[Event]) -> str:
        return "x" * 1_000_000

    monkeypatch.setattr(realtime, "_contents", {})
    realtime.register_frame_builder(TOPIC, heavy)
    options: dict[str, Any] = {"max_size": None, "compression": None, "ping_interval": None}
    async with connect(address, **options) as reader:
        await settled(reader)
        # It takes what its own queue and the sockets' buffers hold, then no more.
        async with connect(address, max_queue=1, **options):
            hub = realtime._hub()
            watched = hub._feeds[TOPIC].viewers
            await until(lambda: len(watched) == 2)

            async def talk() -> None:
                while len(watched) == 2:
                    say("done", 1)
                    await next_frame(reader)

            await asyncio.wait_for(talk(), PATIENCE_S)
            say("done", 2)
            assert (await next_frame(reader))["topic"] == TOPIC


async def until(is_so: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not is_so():  # noqa: ASYNC110 (neither uvicorn nor a set of viewers has an event)
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), PATIENCE_S)


async def test_viewer_queue_is_bounded() -> None:
    viewer = Viewer()
    for _ in range(realtime.VIEWER_QUEUE_FRAMES):
        viewer.offer(Frame.of("frame"))
    assert not viewer.stalled.is_set()
    viewer.offer(Frame.of("one too many"))
    assert viewer.stalled.is_set()
    assert viewer.waiting == realtime.VIEWER_QUEUE_FRAMES


async def test_frame_never_overtakes_one_that_waits() -> None:
    sent: list[str] = []
    is_open = asyncio.Event()

    async def send(text: str) -> None:
        await is_open.wait()
        sent.append(text)

    def write(wire: bytes) -> bool:
        if is_open.is_set():
            sent.append(wire[2:].decode())
        return is_open.is_set()

    viewer = Viewer()
    viewer.write = write
    sending = asyncio.create_task(viewer.send_waiting(send))
    viewer.offer(Frame.of("first"))
    await until(lambda: not viewer.waiting)  # it is being sent
    is_open.set()
    viewer.offer(Frame.of("second"))
    await until(lambda: len(sent) == 2)
    viewer.offer(Frame.of("third"))
    sending.cancel()
    assert sent == ["first", "second", "third"]


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_frame_is_the_bytes_that_the_library_would_send(size: int) -> None:
    text = "字" * (size // 3) + "x" * (size % 3)
    connection = Protocol(Side.SERVER)
    connection.send_text(text.encode())
    assert Frame.of(text).wire == b"".join(connection.data_to_send())


# ---------- the sending side ----------


class Listener:
    """Stands in the publisher's place, to see what it is offered."""

    def __init__(self) -> None:
        self.offers: list[tuple[Any, ...]] = []

    def offer(self, *offered: Any) -> None:
        self.offers.append(offered)


@pytest.fixture
def offers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    listener = Listener()
    monkeypatch.setattr(realtime, "_publisher", lambda: listener)
    return listener.offers


@pytest.mark.django_db(transaction=True)
def test_nothing_is_told_before_the_commit(offers: list[tuple[Any, ...]]) -> None:
    with transaction.atomic():
        publish(TOPIC, "done", ids=[1])
        assert offers == []
    assert offers == [(TOPIC, Event("done", 1, [1]))]


@pytest.mark.django_db(transaction=True)
def test_what_was_rolled_back_is_never_told(offers: list[tuple[Any, ...]]) -> None:
    with transaction.atomic():
        publish(TOPIC, "done", ids=[1])
        transaction.set_rollback(True)
    assert offers == []


@pytest.mark.django_db(transaction=True)
def test_count_is_honest_when_ids_are_a_sample(offers: list[tuple[Any, ...]]) -> None:
    publish(TOPIC, "done", ids=list(range(500)))
    publish(TOPIC, "seen", ids=[1, 2], count=90)
    assert [(event.count, len(event.ids)) for _, event in offers] == [
        (500, realtime.IDS_KEPT),
        (90, 2),
    ]


def test_events_of_a_kind_merge_and_keep_the_newest() -> None:
    event = Event("done")
    event.merge(Event("done", 200, list(range(100)), {"a": 1}, since_s=3.0))
    event.merge(Event("done", 5, [900, 901], None, since_s=4.0))
    assert (event.count, event.ids[-1], len(event.ids), event.payload) == (205, 901, 100, {"a": 1})
    assert event.since_s == 3.0


def test_publisher_of_a_process_is_one(stores: object) -> None:
    assert realtime._publisher() is realtime._publisher()
    assert isinstance(realtime._publisher(), Publisher)


async def test_each_push_is_timed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[float] = []
    monkeypatch.setattr(realtime, "_push_observers", [timed.append])
    async with connect(address) as socket:
        await settled(socket)
        say("done", 1)
        await next_frame(socket)
        await until(lambda: bool(timed))
    assert timed[0] > 0
