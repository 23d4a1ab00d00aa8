"""Training end to end on a small made-up corpus, and its parts."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from apps.releases.training import modern_examples
from apps.releases.training.augmentation import DISGUISES, augment
from apps.releases.training.corpus import LABELS, Row, in_split, read_rows
from apps.releases.training.fitting import FitOptions, fit
from apps.releases.training.measuring import (
    area_under_curve,
    expected_calibration_error,
    measure,
)
from apps.releases.training.paths import TOKENIZER_DIR
from apps.releases.training.served import ServedModel
from apps.releases.training.train import Encoder, labels_of, train
from apps.releases.training.vocabulary import build_lexicon

WORDS = {
    "ok": ["meeting", "lunch", "thanks", "library", "weather", "music"],
    "spam": ["casino", "jackpot", "deposit", "bonus", "wallet", "airdrop"],
    "toxic": ["idiot", "moron", "stupid", "loser", "trash", "clown"],
    "ad": ["discount", "coupon", "shop", "sale", "subscribe", "voucher"],
}


def made_up_corpus(path: Path) -> Path:
    """Each label has words of its own, so a working trainer separates them."""
    rng = random.Random(3)
    with path.open("w", encoding="utf-8") as file:
        for number in range(600):
            label = LABELS[number % 4]
            text = " ".join(rng.choice(WORDS[label]) for _ in range(rng.randint(3, 8)))
            split = ("train", "train", "train", "valid", "test")[number % 5]
            row = {"text": text, "label": label, "lang": "en", "source": "made", "split": split}
            file.write(json.dumps(row) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("training")
    data = made_up_corpus(folder / "messages.jsonl")
    call_command("train_classifier", data=data, out=folder / "models", seed=5, fits=1, epochs=4)
    return data, folder / "models"


def test_training_separates_what_is_separable(trained: tuple[Path, Path]) -> None:
    data, models = trained
    rows = in_split(read_rows(data), "test")
    scores = ServedModel(models, TOKENIZER_DIR).scores([row.text for row in rows])
    assert measure(scores, labels_of(rows)).accuracy > 0.95


def test_the_same_seed_gives_the_same_files_and_another_does_not(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    data, _ = trained
    briefly = FitOptions(fits=1, epochs=1)
    for name, seed in (("first", 5), ("second", 5), ("other", 6)):
        train(data, tmp_path / name, seed=seed, report=lambda line: None, options=briefly)
    model, words = "classifier/1/model.onnx", "tokenizer/1/lexicon.txt"
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    assert (first / model).read_bytes() == (second / model).read_bytes()
    assert (first / words).read_bytes() == (second / words).read_bytes()
    assert (first / model).read_bytes() != (other / model).read_bytes()


def test_the_model_card_holds_figures_and_no_message(trained: tuple[Path, Path]) -> None:
    data, models = trained
    card = (models / "classifier" / "MODEL_CARD.md").read_text("utf-8")
    assert "| en | 120 |" in card
    assert "µs a message" in card
    assert "{" not in card, "a figure that was not filled in"
    assert not any(row.text in card for row in read_rows(data))


def test_committed_files_stay_small(trained: tuple[Path, Path]) -> None:
    _, models = trained
    for file in models.rglob("*"):
        assert file.stat().st_size < 8 * 1024 * 1024


@pytest.mark.parametrize(
    "line",
    ['{"label": "ok"}', '{"text": "secret words", "label": "fine"}', '{"text": 5, "label": "ok"}'],
)
def test_a_bad_row_is_named_by_line_and_not_quoted(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": "ok"}\n' + line + "\n", "utf-8")
    with pytest.raises(CommandError, match="line 2") as error:
        call_command("train_classifier", data=path, out=tmp_path)
    assert "secret" not in str(error.value)


def test_a_missing_data_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        call_command("train_classifier", data=tmp_path / "nowhere.jsonl", out=tmp_path)


def test_held_out_patterns_are_never_trained_on() -> None:
    trained_on = {r.text for r in modern_examples.make_rows(random.Random(1), 200, held_out=False)}
    measured = {r.text for r in modern_examples.make_rows(random.Random(1), 200, held_out=True)}
    assert trained_on
    assert measured
    assert not trained_on & measured


def test_every_label_and_language_has_patterns_of_our_own() -> None:
    rows = modern_examples.make_rows(random.Random(1), 3, held_out=False)
    assert {(row.label, row.lang) for row in rows} == {
        (name, lang) for name in LABELS for lang in ("en", "zh")
    }


def test_patterns_leave_no_marks_of_their_own() -> None:
    for held_out in (True, False):
        for row in modern_examples.make_rows(random.Random(2), 40, held_out=held_out):
            assert not re.search(r"[{}]|<id>|<n>", row.text), row.source
            assert row.text == row.text.strip()


def test_variants_keep_their_label_and_cover_all_labels() -> None:
    rows = [
        Row(" ".join([word] * 14), label, "en", "made", "train")
        for label, words in WORDS.items()
        for word in words
        for _ in range(20)
    ]
    variants = augment(rows, random.Random(4))
    assert {v.label for v in variants} == set(LABELS)
    known = {(word, label) for label, words in WORDS.items() for word in words}
    whole = [v for v in variants if v.text.split(" ")[0] in {w for w, _ in known}]
    assert all((v.text.split(" ")[0], v.label) in known for v in whole)


@pytest.mark.parametrize("disguise", DISGUISES)
def test_disguises_take_any_text(disguise: object) -> None:
    assert callable(disguise)
    for text in ("", "a", "加微信", "free money now", "😀"):
        assert isinstance(disguise(text, random.Random(1)), str)


def test_the_lexicon_holds_words_of_several_sources_only() -> None:
    rows = [Row("shared words here", "ok", "en", f"s{i % 2}", "train") for i in range(10)]
    rows += [Row("lonely word", "ok", "en", "s0", "train") for _ in range(10)]
    rows += [Row("foreign rows", "ok", "de", f"s{i % 2}", "train") for i in range(10)]
    lexicon = build_lexicon(rows)
    assert {"shared", "words", "money"} <= lexicon
    assert not {"lonely", "foreign"} & lexicon


def test_fitting_learns_and_repeats() -> None:
    rows = [Row(f"{w} {w}", la, "en", "made", "train") for la, ws in WORDS.items() for w in ws] * 5
    features = Encoder(frozenset()).features(rows)
    weights = np.ones(len(rows), dtype=np.float32)
    first, second = (
        fit(features, labels_of(rows), weights, seed=1, options=FitOptions(fits=2, epochs=4))
        for _ in "ab"
    )
    assert (first.weights == second.weights).all()
    assert (first.logits(features).argmax(axis=1) == labels_of(rows)).mean() > 0.95


def test_area_under_the_curve_counts_ties_as_half() -> None:
    truth = np.array([False, False, True, True])
    assert area_under_curve(np.array([0.1, 0.2, 0.3, 0.4]), truth) == 1.0
    assert area_under_curve(np.array([0.5, 0.5, 0.5, 0.5]), truth) == 0.5
    assert area_under_curve(np.array([0.1, 0.3, 0.2, 0.4]), truth) == 0.75
    assert area_under_curve(np.array([0.1, 0.2]), np.array([False, False])) is None


def test_figures_of_a_known_confusion() -> None:
    scores = np.eye(4)[[0, 0, 1, 3, 2]]
    figures = measure(scores, np.array([0, 1, 1, 3, 0]))
    assert figures.accuracy == pytest.approx(3 / 5)
    assert figures.flagged_f1 == pytest.approx(2 * 2 / (3 + 3))
    assert figures.false_positive_rate == pytest.approx(1 / 2)
    assert figures.by_label["spam"].recall == pytest.approx(1 / 2)
    assert figures.by_label["spam"].precision == 1.0


def test_calibration_error_is_the_gap_between_sure_and_right() -> None:
    scores = np.tile([0.8, 0.2, 0.0, 0.0], (10, 1))
    assert expected_calibration_error(scores, np.array([0] * 8 + [1] * 2)) == pytest.approx(0.0)
    assert expected_calibration_error(scores, np.array([1] * 10)) == pytest.approx(0.8)
