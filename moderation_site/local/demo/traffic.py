"""Turns the scenes into an endless, seeded stream of batches. Pure: it sends and sleeps nothing."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from moderation_site.local.demo.disguise import disguise
from moderation_site.local.demo.scenes import (
    BORDERLINE,
    CAMPAIGNS,
    CROWD,
    INSULTS,
    SCENES,
    Conversation,
    Scene,
)

Message = dict[str, Any]

STEP_S = 0.5
# People talk in waves of this length, between half and one and a half times the usual.
TIDE_S = 600.0
CONVERSATIONS_PER_S = 0.25
ASIDES_PER_S = 0.5
NUISANCES_PER_S = 0.15
BORDERLINE_PER_S = 0.08
RAID_EVERY_S, CROWD_EVERY_S = 150.0, 100.0
EDITED_SHARE = 0.03


@dataclass(order=True)
class Planned:
    """A message that will be said at `at_s`."""

    at_s: float
    number: int
    message: Message = field(compare=False)


def language_of(scene: Scene) -> str:
    return "en" if scene.group.isascii() else "zh"


class Traffic:
    """The stream.

    Attributes:
        run: Keeps the ids of one run apart from those of another.
    """

    def __init__(self, *, run: str, random: Random) -> None:
        self._run = run
        self._random = random
        self._numbers = itertools.count(1)
        self._planned: list[Planned] = []

    def steps(self) -> Iterator[list[Message]]:
        """One batch for each STEP_S seconds, empty when all are silent."""
        for step in itertools.count():
            now_s = step * STEP_S
            self._plan(now_s)
            yield self._take_due(now_s + STEP_S)

    def _take_due(self, until_s: float) -> list[Message]:
        due = []
        while self._planned and self._planned[0].at_s < until_s:
            due.append(heapq.heappop(self._planned).message)
        return due

    def _plan(self, now_s: float) -> None:
        tide = 1.0 + 0.5 * math.sin(2 * math.pi * now_s / TIDE_S)
        for plan, per_s in (
            (self._plan_conversation, CONVERSATIONS_PER_S * tide),
            (self._plan_aside, ASIDES_PER_S * tide),
            (self._plan_nuisance, NUISANCES_PER_S),
            (self._plan_borderline, BORDERLINE_PER_S),
            (self._plan_raid, 1 / RAID_EVERY_S),
            (self._plan_crowd, 1 / CROWD_EVERY_S),
        ):
            if self._random.random() < per_s * STEP_S:
                plan(now_s)

    def _plan_conversation(self, now_s: float) -> None:
        scene = self._random.choice(SCENES)
        lines = self._filled(self._random.choice(scene.conversations), scene)
        speakers = itertools.cycle(self._random.sample(scene.members, 3))
        at_s, before = now_s, None
        for line, speaker in zip(lines, speakers, strict=False):
            message = self._message(scene.group, speaker, line)
            if before is not None and self._random.random() < 0.3:
                message |= {"reply_to": before["external_id"], "quoted_text": before["text"]}
            self._say(at_s, message)
            before = message
            at_s += self._random.uniform(1.5, 8.0)

    def _filled(self, conversation: Conversation, scene: Scene) -> list[str]:
        slots = {name: self._random.choice(values) for name, values in scene.slots.items()}
        return [line.format(**slots) for line in conversation]

    def _plan_aside(self, now_s: float) -> None:
        scene = self._random.choice(SCENES)
        speaker = self._random.choice(scene.members)
        self._say(now_s, self._message(scene.group, speaker, self._random.choice(scene.asides)))

    def _plan_nuisance(self, now_s: float) -> None:
        scene = self._random.choice(SCENES)
        source = self._random.choice((INSULTS, CAMPAIGNS))
        text = self._numbered(self._random.choice(source[language_of(scene)]))
        speaker = self._random.choice(scene.members) if source is INSULTS else self._stranger()
        self._say(now_s, self._message(scene.group, speaker, disguise(text, self._random)))

    def _plan_borderline(self, now_s: float) -> None:
        scene = self._random.choice(SCENES)
        text = self._numbered(self._random.choice(BORDERLINE[language_of(scene)]))
        self._say(now_s, self._message(scene.group, self._random.choice(scene.members), text))

    def _plan_raid(self, now_s: float) -> None:
        """Strangers push one campaign into one group, each copy a little different."""
        scene = self._random.choice(SCENES)
        campaign = self._random.choice(CAMPAIGNS[language_of(scene)])
        strangers = [self._stranger() for _ in range(self._random.randint(3, 12))]
        for _ in range(self._random.randint(60, 240)):
            text = disguise(self._numbered(campaign), self._random)
            at_s = now_s + self._random.uniform(0.0, 12.0)
            self._say(at_s, self._message(scene.group, self._random.choice(strangers), text))

    def _plan_crowd(self, now_s: float) -> None:
        """Something happened, and a whole group shouts at once."""
        scene = self._random.choice(SCENES)
        for _ in range(self._random.randint(30, 90)):
            text = self._random.choice(CROWD[language_of(scene)])
            at_s = now_s + self._random.expovariate(1 / 3.0)
            self._say(at_s, self._message(scene.group, self._random.choice(scene.members), text))

    def _say(self, at_s: float, message: Message) -> None:
        self._push(at_s, message)
        if self._random.random() < EDITED_SHARE:
            edited = message | {"revision": 2, "text": f"{message['text']} *"}
            self._push(at_s + self._random.uniform(3.0, 30.0), edited)

    def _push(self, at_s: float, message: Message) -> None:
        heapq.heappush(self._planned, Planned(at_s, next(self._numbers), message))

    def _message(self, group: str, speaker: str, text: str) -> Message:
        return {
            "group": group,
            "external_id": f"demo-{self._run}-{next(self._numbers)}",
            "sender": {"id": f"{group}/{speaker}", "name": speaker},
            "text": text,
        }

    def _stranger(self) -> str:
        return f"user{self._random.randrange(10_000, 1_000_000)}"

    def _numbered(self, text: str) -> str:
        return text.format(n=self._random.randrange(20, 9_000))
