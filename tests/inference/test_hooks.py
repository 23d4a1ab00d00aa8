"""Hooks are told, and can't break what they watch."""

import logging

from inference.hooks import AttemptEvent, BatchEvent, Hooks, combine

BATCH = BatchEvent(size=3, wait_ms=1.5, reason="full", in_flight=1, queued=0)


def test_a_hook_is_told_the_event():
    seen = []
    Hooks(on_batch=seen.append).on_batch(BATCH)
    assert seen == [BATCH]


def test_a_raising_hook_is_logged_once_and_breaks_nothing(caplog):
    def explode(event):
        raise RuntimeError("a stranger's fault")

    hooks = Hooks(on_batch=explode)
    with caplog.at_level(logging.ERROR, logger="inference.hooks"):
        for _ in range(3):
            hooks.on_batch(BATCH)
    assert [record.message for record in caplog.records] == [
        "A hook for BatchEvent raised; told once"
    ]


def test_combined_hooks_are_all_told_though_the_first_raises(caplog):
    seen = []

    def explode(event):
        raise RuntimeError("a stranger's fault")

    both = combine(Hooks(on_batch=explode), Hooks(on_batch=seen.append))
    both.on_batch(BATCH)
    assert seen == [BATCH]
    assert "told once" in caplog.text


def test_what_nobody_asked_for_stays_none():
    both = combine(Hooks(on_batch=lambda event: None), Hooks())
    assert both.on_batch is not None
    assert both.on_attempt is None
    assert combine() == Hooks()


def test_no_event_has_a_place_for_text():
    names = set(AttemptEvent.__dataclass_fields__) | set(BatchEvent.__dataclass_fields__)
    assert not names & {"text", "texts", "item", "items", "body"}
