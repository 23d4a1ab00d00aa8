"""Simplified Chinese is complete, and what is compiled is what is written.

The compiled catalog is committed, so that a fresh clone needs no gettext; so is this test without
it: it reads templates as makemessages does, Python by its syntax tree, and the catalogs itself.
"""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.utils.translation.template import templatize

BASE = Path(settings.BASE_DIR)
CATALOG = BASE / "locale/zh_Hans/LC_MESSAGES/django.po"
CALLS = {
    **dict.fromkeys(("_", "gettext", "gettext_lazy", "gettext_noop"), (None, 0)),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), (None, 0)),
    **dict.fromkeys(("pgettext", "pgettext_lazy", "npgettext", "npgettext_lazy"), (0, 1)),
}
LITERAL = r"""u?(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
TEMPLATE_CALL = re.compile(rf"\b(_|n?p?gettext)\((({LITERAL})(?:,\s*({LITERAL}))*)")
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w*\}")
# A message is known by its context (None without) and its text.
Key = tuple[str | None, str]


def read_catalog(path: Path) -> dict[Key, list[str]]:
    """All entries; several texts for a plural. Fuzzy ones are refused, Django would skip them."""
    entries: dict[Key, list[str]] = {}
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            assert not line.startswith("#~"), f"obsolete: {line}"
            assert not (line.startswith("#,") and "fuzzy" in line), f"fuzzy: {block}"
            if line.startswith("#"):
                continue
            if not line.startswith('"'):
                name, line = line.split(" ", 1)
                fields[name] = ""
            fields[name] += ast.literal_eval(line)
        texts = [text for name, text in fields.items() if name.startswith("msgstr")]
        if fields.get("msgid"):
            entries[fields.get("msgctxt"), fields["msgid"]] = texts
    return entries


def python_messages(path: Path) -> Iterator[Key]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from _message_of(node.func.id, node.args)


def _message_of(name: str, arguments: list[ast.expr]) -> Iterator[Key]:
    if name not in CALLS:
        return
    context_at, text_at = CALLS[name]
    texts = [each.value if isinstance(each, ast.Constant) else None for each in arguments]
    if len(texts) > text_at and isinstance(texts[text_at], str):
        yield None if context_at is None else texts[context_at], texts[text_at]


def template_messages(path: Path) -> Iterator[Key]:
    for call in TEMPLATE_CALL.finditer(templatize(path.read_text(encoding="utf-8"))):
        texts = [ast.literal_eval(text) for text in re.findall(LITERAL, call.group(2))]
        context_at, text_at = CALLS[call.group(1)]
        yield None if context_at is None else texts[context_at], texts[text_at].replace("%%", "%")


def all_messages() -> dict[Key, Path]:
    found: dict[Key, Path] = {}
    for folder in ("apps", "moderation_site"):
        for path in (BASE / folder).rglob("*.py"):
            found.update(dict.fromkeys(python_messages(path), path))
    for path in (BASE / "templates").rglob("*.html"):
        found.update(dict.fromkeys(template_messages(path), path))
    return found


@pytest.fixture(scope="module")
def catalog() -> dict[Key, list[str]]:
    return read_catalog(CATALOG)


def test_every_text_of_the_console_is_translated(catalog: dict[Key, list[str]]) -> None:
    messages = all_messages()
    assert len(messages) > 100  # else the extraction itself is broken
    untranslated = {
        key: str(path.relative_to(BASE))
        for key, path in messages.items()
        if not all(catalog.get(key, [""]))
    }
    assert untranslated == {}


def test_no_translation_is_left_of_a_text_that_is_gone(catalog: dict[Key, list[str]]) -> None:
    assert catalog.keys() - all_messages().keys() == set()


def test_placeholders_are_kept(catalog: dict[Key, list[str]]) -> None:
    wrong = [
        (text, translation)
        for (_, text), translations in catalog.items()
        for translation in translations
        if set(PLACEHOLDER.findall(text)) != set(PLACEHOLDER.findall(translation))
    ]
    assert wrong == []


def test_compiled_catalog_is_what_is_written(catalog: dict[Key, list[str]]) -> None:
    with CATALOG.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for (context, text), translations in catalog.items():
        for number, translation in enumerate(translations):
            key = text if context is None else f"{context}\x04{text}"
            plural = compiled.ngettext(key, key, number) if len(translations) > 1 else None
            assert translation in {compiled.gettext(key), compiled.ngettext(key, key, 1), plural}
    assert len(_texts(compiled)) == len(catalog)


def _texts(compiled: gettext.GNUTranslations) -> set[str]:
    keys = compiled._catalog.keys()  # type: ignore[attr-defined]
    return {key[0] if isinstance(key, tuple) else key for key in keys} - {""}
