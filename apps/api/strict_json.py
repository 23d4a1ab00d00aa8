"""JSON that means one thing: no duplicate keys, NUL, lone surrogates, NaN or endless nesting.

msgspec decodes and checks types in a few microseconds, but keeps the last of two equal keys and
lets NUL through. So what it decoded is compared with the raw bytes by counting colons, which
costs next to nothing, and only a document that doesn't add up, or that msgspec refused, is
walked by the slow inspector, which knows the place of each fault.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec

from apps.api.problems import MALFORMED, FieldError, Problem, invalid

T = TypeVar("T")
_MOST_ERRORS = 20
_INT64 = range(-(1 << 63), 1 << 63)


def malformed(detail: str) -> Problem:
    return Problem(MALFORMED, f"Nothing was stored: {detail}. Send one valid UTF-8 JSON document.")


def decode(raw: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T], at: str = "") -> T:
    """Decode `raw`; `at` is the pointer of its root, for the errors.

    Raises:
        Problem: 400 when it is no JSON, 422 with pointers when it is the wrong JSON.
    """
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        inspect(bytes(raw), at)
        if isinstance(error, msgspec.ValidationError):
            raise invalid([field_error(error, at)]) from error
        raise malformed("the body is not valid JSON") from error


def may_hide_faults(raw: bytes | msgspec.Raw, keys: int, strings: tuple[str, ...]) -> bool:
    """Whether `raw` may hold a NUL or a key twice; when False, it certainly holds neither.

    Each key brings a colon, each string those it holds; a key that was given twice brings one
    more. An escaped colon (`\\u003a`) would make the sum unreliable.
    """
    view = bytes(raw)
    if b"\\u0000" in view or b"\\u003" in view:
        return True
    return view.count(b":") != keys + "".join(strings).count(":")


def inspect(raw: bytes, at: str = "") -> None:
    """Raise the Problem that the document `raw` deserves, if it deserves one."""
    errors = faults(parse(raw), at)
    if errors:
        raise invalid(errors)


def faults(tree: Any, at: str) -> list[FieldError]:
    """What is wrong within a parsed document, the first twenty."""
    return list(islice(_faults(tree, at), _MOST_ERRORS))


def refuse_faulty_keys(pairs: Pairs) -> None:
    """Raise Problem (422) when this object itself has a key twice or one that can't be."""
    errors = list(islice(_key_faults(pairs, ""), _MOST_ERRORS))
    if errors:
        raise invalid(errors)


class Pairs(list[tuple[str, Any]]):
    """A JSON object with its keys in order, duplicates kept."""


class _Constant(str):
    """NaN or an infinity, which JSON doesn't have but Python's parser accepts."""


def parse(raw: bytes) -> Any:
    """The document as lists, Pairs and scalars. Raises Problem (400) when it is no JSON."""
    try:
        return json.loads(raw.decode(), object_pairs_hook=Pairs, parse_constant=_Constant)
    except UnicodeDecodeError as error:
        raise malformed(f"the body is not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise malformed(f"the body is not valid JSON ({place})") from error
    except RecursionError as error:
        raise malformed("the body is nested too deeply") from error
    except ValueError as error:
        raise malformed("the body holds a number with thousands of digits") from error


def plain(value: Any) -> Any:
    """A parsed document as ordinary dicts, to hand an item on after inspection."""
    if isinstance(value, Pairs):
        return {key: plain(item) for key, item in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _faults(root: Any, at: str) -> Iterator[FieldError]:
    waiting = [(root, at)]
    while waiting:
        value, pointer = waiting.pop()
        if isinstance(value, Pairs):
            yield from _key_faults(value, pointer)
            waiting += [(v, f"{pointer}/{_escape(k)}") for k, v in reversed(value)]
        elif isinstance(value, list):
            waiting += [(v, f"{pointer}/{i}") for i, v in reversed(list(enumerate(value)))]
        else:
            fault = _scalar_fault(value)
            if fault:
                yield FieldError(fault, pointer)


def _key_faults(pairs: Pairs, pointer: str) -> Iterator[FieldError]:
    seen = set()
    for key, _ in pairs:
        fault = _scalar_fault(key)
        if fault:
            yield FieldError(f"has a key that {fault}", pointer)
        if key in seen:
            yield FieldError("is given twice", f"{pointer}/{_escape(key)}")
        seen.add(key)


def _scalar_fault(value: object) -> str | None:
    if isinstance(value, _Constant):
        return "must be a number that JSON has, not NaN or an infinity"
    if isinstance(value, str):
        if "\x00" in value:
            return "must not contain NUL (U+0000)"
        if _SURROGATE.search(value):
            return "must not contain half of a surrogate pair"
    elif isinstance(value, float) and not math.isfinite(value):
        return "must be a number within the range of a double"
    elif isinstance(value, int) and value not in _INT64:
        return "must be a whole number of at most 64 bits"
    return None


_SURROGATE = re.compile("[\ud800-\udfff]")


def _escape(key: str) -> str:
    """A JSON pointer's step; what could not be sent back is replaced."""
    clean = _SURROGATE.sub("\ufffd", key)
    return clean.replace("~", "~0").replace("/", "~1")


def depth_of(value: Any) -> int:
    """How many objects and lists are inside each other."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        item, level = waiting.pop()
        if isinstance(item, Pairs):
            children = [v for _, v in item]
        elif isinstance(item, list):
            children = item
        else:
            continue
        deepest = max(deepest, level)
        waiting += [(child, level + 1) for child in children]
    return deepest


# ---------- msgspec's messages in the API's words ----------
_PATH = re.compile(r" - at `(?P<path>\$[^`]*)`$")
_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Expected `str` of length >= 1$"), "must not be empty"),
    (
        re.compile(r"Expected `str` of length <= (\d+)$"),
        "must be at most {0} characters long (Unicode code points)",
    ),
    (re.compile(r"Expected `array` of length <= (\d+)$"), "must hold at most {0} items"),
    (re.compile(r"Expected `int` >= (-?\d+)$"), "must be at least {0}"),
    (re.compile(r"Expected `int` <= (-?\d+)$"), "must be at most {0}"),
)
_MISSING = re.compile(r"Object missing required field `(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$", re.DOTALL)
_TYPES = re.compile(r"Expected `([^`]*)`, got `([^`]*)`$")


def field_error(error: msgspec.ValidationError, at: str) -> FieldError:
    """What msgspec found, as pointer and sentence."""
    message = str(error)
    found = _PATH.search(message)
    pointer = at + (_pointer(found["path"]) if found else "")
    message = message[: found.start()] if found else message
    if match := _MISSING.match(message):
        return FieldError("is required", f"{pointer}/{_escape(match[1])}")
    if match := _UNKNOWN.match(message):
        return FieldError(
            "is not a field here: remove it, or check its spelling",
            f"{pointer}/{_escape(match[1])}",
        )
    return FieldError(_sentence(message), pointer)


def _sentence(message: str) -> str:
    for rule, sentence in _RULES:
        if match := rule.match(message):
            return sentence.format(*match.groups())
    if match := _TYPES.match(message):
        wanted = " or ".join(_WORDS.get(word, word) for word in match[1].split(" | "))
        return f"must be {wanted}, not {_WORDS.get(match[2], match[2])}"
    return f"is not valid: {message}"


def _pointer(path: str) -> str:
    return path.removeprefix("$").replace(".", "/").replace("[", "/").replace("]", "")
