"""Texts that try to look like others, from their arrival to their verdict by the real model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from apps.chat.models import Message
from apps.policies.models import Label
from apps.scoring.measuring import Measurements
from apps.scoring.models import Verdict
from apps.scoring.pipeline import Pipeline
from apps.scoring.replicas import new_client
from tests.scoring.conftest import Say

PLENTY_S = 60.0
PLAIN, HAN = "click here for free casino bonus", "加微信日赚三百元"
MATHEMATICAL = str.maketrans({chr(97 + n): chr(0x1D41A + n) for n in range(26)})
FULL_WIDTH = str.maketrans({chr(33 + n): chr(0xFF01 + n) for n in range(94)})

# Text, what it stands for, why the verdict says so.
DISGUISED = [
    ("cl\u2062ick he\u200bre for fr\u2068ee casino bonus", PLAIN, "invisible_chars"),
    ("click here for free ca\u00adsi\u00adno bonus", PLAIN, "invisible_chars"),
    ("cl\u2060ick here for free cas\ufe0fino bo\U000e0061nus", PLAIN, "invisible_chars"),
    ("加\u200b微\u2060信日赚三百元", HAN, "invisible_chars"),
    ("click here for fr\u0435\u0435 casin\u043e bonus", PLAIN, "look_alikes"),
    (f"click here for {'free'.translate(MATHEMATICAL)} casino bonus", PLAIN, None),
    (f"click here for free {'casino'.translate(FULL_WIDTH)} bonus", PLAIN, None),
    ("加 微 信 日赚三百元", HAN, "spaced_letters"),
    ("加-微-信 日赚三百元", HAN, "spaced_letters"),
    ("click here for free c a s i n o bonus", PLAIN, "spaced_letters"),
    ("click here for freeeee casino bonus", PLAIN, None),
    ("click here for fr33 cas1n0 bonus", PLAIN, None),
    (
        "win at http://shop.example/%66%72%65%65-%63%61%73%69%6e%6f",
        "win at http://shop.example/free-casino",
        "encoded_links",
    ),
]
# What spelling needs, or ordinary writing looks like.
HONEST = [
    "می\u200cخواهم فردا بیایم",
    "क्\u200dष और र्\u200dय",
    "👨\u200d👩\u200d👧 at the lake today",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f 2:1",
    "привет, как дела",
    "καλημέρα σε όλους",
    "a b c d",
    "for i in range(3): print(i)",
    "I have a 6 itch to scratch",
]
NEARLY_NOTHING = [
    "\ufeff",
    "\ufeffhello there",
    "🎉🎉🎉",
    "   ",
    "\u200b\u200d\u2060",
    "\u202e",
    "a\u0301",
]


@pytest.fixture
def pipeline(triton: dict[str, Any], settings: Settings) -> Iterator[Pipeline]:
    """Over the model that is shipped."""
    if triton:
        settings.TRITON_REPLICAS = [f"{each['name']}={each['grpc']}" for each in triton["triton"]]
    with new_client() as client:
        yield Pipeline(client, Measurements("worker"))


def judged(pipeline: Pipeline, say: Say, texts: list[str]) -> list[Verdict]:
    ids = say(*texts)
    assert pipeline.drain(for_s=PLENTY_S) == len(texts)
    kept = dict(Message.objects.values_list("id", "text"))
    assert [kept[id_] for id_ in ids] == texts
    verdicts = {verdict.message_id: verdict for verdict in Verdict.objects.all()}
    return [verdicts[id_] for id_ in ids]


def scores(verdict: Verdict) -> list[float | None]:
    return [getattr(verdict, f"score_{label}") for label in Label]


def test_a_disguise_changes_nothing_and_is_told(pipeline: Pipeline, say: Say) -> None:
    disguised = judged(pipeline, say, [text for text, _, _ in DISGUISED])
    clean = judged(pipeline, say, [plain for _, plain, _ in DISGUISED])
    for (text, _, reason), found, wanted in zip(DISGUISED, disguised, clean, strict=True):
        assert (found.label, found.action) == (wanted.label, wanted.action), ascii(text)
        assert scores(found) == pytest.approx(scores(wanted), abs=1e-6), ascii(text)
        if reason is not None:
            assert f"undone:{reason}" in found.reasons, ascii(text)
        assert not [each for each in wanted.reasons if each.startswith("undone:")]
    assert {verdict.label for verdict in clean} - {Label.OK}, "nothing worth hiding"


def test_what_writing_needs_is_no_disguise_and_stays_ok(pipeline: Pipeline, say: Say) -> None:
    for text, verdict in zip(HONEST, judged(pipeline, say, HONEST), strict=True):
        assert verdict.label == Label.OK, ascii(text)
        assert verdict.reasons == [], ascii(text)


def test_a_text_of_nearly_nothing_has_finite_scores(pipeline: Pipeline, say: Say) -> None:
    for text, verdict in zip(NEARLY_NOTHING, judged(pipeline, say, NEARLY_NOTHING), strict=True):
        found = [score for score in scores(verdict) if score is not None]
        assert len(found) == 4, ascii(text)
        assert all(map(math.isfinite, found)), ascii(text)
        assert sum(found) == pytest.approx(1, abs=1e-4)
