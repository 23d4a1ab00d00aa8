"""A verdict's reasons name what the normaliser names."""

from __future__ import annotations

import ast
from pathlib import Path

from apps.policies.models import Label
from apps.scoring.reasons import UNDONE, model_reasons

NORMALIZER = Path(__file__).parents[2] / "triton_models" / "tokenizer" / "1" / "normalizer.py"


def test_bits_are_those_of_the_normaliser() -> None:
    """Read from its source: it is not a package, and runs in another environment."""
    tree = ast.parse(NORMALIZER.read_text(encoding="utf-8"))
    (table,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "UNDONE_BITS"
    ]
    assert isinstance(table, ast.Dict)
    bits = {
        ast.literal_eval(key): eval(ast.unparse(value))
        for key, value in zip(table.keys, table.values, strict=True)
        if key is not None
    }
    assert bits == {name: 1 << bit for bit, name in enumerate(UNDONE)}


def test_threshold_comes_first_then_each_bit() -> None:
    assert model_reasons(Label.SPAM, 0b101) == (
        "model:spam",
        "undone:invisible_chars",
        "undone:spaced_letters",
    )
    assert model_reasons(None, 0) == ()


def test_bits_of_a_newer_normaliser_are_left_out() -> None:
    assert model_reasons(None, 1 << 30) == ()
