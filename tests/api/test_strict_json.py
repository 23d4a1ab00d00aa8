"""The fast way and the slow way agree on what a document holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.api.intake import read_batch, read_message
from apps.api.problems import Problem
from apps.chat.services import NewMessage

# Colons, escapes and keys' names are what the colon count could stumble over.
STRINGS = st.text(
    st.one_of(
        st.sampled_from('::"\\/{}[],\u0000au3é加😀'),
        st.characters(exclude_categories=["Cs"]),
    ),
    min_size=1,
    max_size=20,
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "group": STRINGS,
        "external_id": STRINGS,
        "sender": st.fixed_dictionaries({"id": STRINGS}, optional={"name": STRINGS}),
        "text": STRINGS,
    },
    optional={
        "revision": st.integers(1, 9),
        "quoted_text": STRINGS | st.none(),
        "reply_to": STRINGS | st.none(),
        "sent_at": st.sampled_from(["2026-11-30T12:00:00Z", "2026-11-30T12:00:00.5+08:00", None]),
        "metadata": st.dictionaries(STRINGS, STRINGS | st.integers(-9, 9), max_size=3) | st.none(),
    },
)


def fields(message: NewMessage) -> tuple[str, ...]:
    return (message.group, message.external_id, message.sender, message.text)


@given(DOCUMENTS, st.booleans())
def test_a_message_without_nul_is_read_as_it_is(document: dict[str, Any], escaped: bool) -> None:
    raw = json.dumps(document, ensure_ascii=escaped).encode()
    has_nul = b"\\u0000" in json.dumps(document).replace("\\\\", "").encode()
    if has_nul:
        with pytest.raises(Problem) as refused:
            read_message(raw)
        assert refused.value.kind.status == 422
        return
    message = read_message(raw)
    sent = document
    assert fields(message) == (
        sent["group"],
        sent["external_id"],
        sent["sender"]["id"],
        sent["text"],
    )
    assert message.quoted_text == (sent.get("quoted_text") or "")
    [in_batch] = read_batch(b'{"messages":[' + raw + b"]}")
    assert in_batch == message


@given(DOCUMENTS, st.data())
def test_a_key_given_twice_is_always_found(document: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(document)))
    value = data.draw(STRINGS | st.just(document[key]))
    name = data.draw(st.sampled_from([json.dumps(key), '"' + escape(key) + '"']))
    twice = f"{{{name}:{json.dumps(value)}, {json.dumps(document)[1:]}"
    with pytest.raises(Problem) as refused:
        read_message(twice.encode())
    assert refused.value.kind.status == 422


def escape(key: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in key)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_problem(raw: bytes) -> None:
    for read in (read_message, read_batch):
        with pytest.raises(Problem):
            read(raw)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_a_message_or_a_problem(document: Any) -> None:
    raw = json.dumps(document).encode()
    with pytest.raises(Problem) as refused:
        read_message(raw)
    assert refused.value.kind.status in (400, 422)
