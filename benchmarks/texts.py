"""Messages of a made-up chat, in English and Chinese, seeded: the load of the benchmarks.

Lengths are spread as chat's are, most between 15 and 80 characters with a long tail, and nearly
every text is different, so nothing is cheaper here than in a real chat.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

_EN_STARTS = (
    "has anyone seen", "I really like", "who is coming to", "thanks for", "can we move",
    "did you read", "sorry I missed", "we should talk about", "click here for", "free money with",
    "what a stupid idea,", "selling", "join my channel about", "I will never forgive you for",
)  # fmt: skip
_EN_THINGS = (
    "the match tonight", "your last patch", "that recipe", "the trip on Friday", "my old bike",
    "the new rules", "a second hand phone", "crypto signals", "the dog next door", "this song",
)  # fmt: skip
_EN_ENDS = ("", "?", "!!", ", see you there", " lol", ", tell me more when you have time", " :)")
_ZH_STARTS = (
    "今晚谁来",
    "大家好，我想问问",
    "低价出售",
    "加微信领取",
    "谢谢你的",
    "你真是太蠢了，",
    "明天一起去看",
)
_ZH_THINGS = ("比赛", "新手机", "优惠券", "那个菜谱", "周末的旅行", "群里的新规定", "老房子")
_ZH_ENDS = ("吧", "？", "！", "，有空告诉我", "哈哈")


def chat_texts(count: int, *, seed: int = 1) -> list[str]:
    """`count` texts, the same for the same seed."""
    source = random.Random(seed)
    return [_text(source) for _ in range(count)]


def _text(source: random.Random) -> str:
    sentences = 1 + int(source.expovariate(2.5))
    if source.random() < 0.3:
        parts = (
            source.choice(_ZH_STARTS) + source.choice(_ZH_THINGS) + source.choice(_ZH_ENDS)
            for _ in range(sentences)
        )
        return f"{''.join(parts)} {source.randrange(1_000_000)}"
    parts = (
        f"{source.choice(_EN_STARTS)} {source.choice(_EN_THINGS)}{source.choice(_EN_ENDS)}"
        for _ in range(sentences)
    )
    return f"{' '.join(parts)} {source.randrange(1_000_000)}"


def read_texts(path: Path, count: int) -> list[str]:
    """Texts of a JSON-lines file with a `text` in each row, again and again until enough."""
    with path.open(encoding="utf-8") as lines:
        texts = [str(json.loads(line)["text"]) for line in lines]
    return (texts * (count // len(texts) + 1))[:count]
