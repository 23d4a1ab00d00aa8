"""From labelled rows to a served model: word list, ids, weights, calibration, ONNX, model card."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from apps.releases.training.augmentation import augment
from apps.releases.training.calibration import fit_temperature
from apps.releases.training.corpus import Row, in_split, read_rows
from apps.releases.training.evaluation import Evaluation, evaluate
from apps.releases.training.export import build_model, write_model
from apps.releases.training.features import feature_matrix
from apps.releases.training.fitting import FitOptions, LinearModel, fit
from apps.releases.training.model_card import Training, card_text
from apps.releases.training.modern_examples import make_rows
from apps.releases.training.paths import TOKENIZER_DIR, load_normalizer
from apps.releases.training.served import ServedModel
from apps.releases.training.vocabulary import build_lexicon, lexicon_text

WEAK_ROW_WEIGHT = 0.7
MODERN_PER_PATTERN = 40
MODERN_MEASURED_PER_PATTERN = 20
ENCODE_BATCH = 512
MAX_FILE_BYTES = 8 * 1024 * 1024

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What was fitted; logits of the exported graph are `model.logits(...) / temperature`."""

    model: LinearModel
    temperature: float
    lexicon: frozenset[str]
    trained_rows: int
    seconds: float


class Encoder:
    """Texts to features, through the tokenizer that the server runs."""

    def __init__(self, lexicon: frozenset[str]) -> None:
        self._normalizer = load_normalizer().Normalizer(TOKENIZER_DIR, lexicon)

    def ids(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        rows: list[NDArray[np.int64]] = []
        for first in range(0, len(texts), ENCODE_BATCH):
            batch = [text.encode() for text in texts[first : first + ENCODE_BATCH]]
            encoded = self._normalizer.encode(batch)
            lengths = encoded.attention_mask.sum(axis=1)
            rows += [ids[:length] for ids, length in zip(encoded.input_ids, lengths, strict=True)]
        return rows

    def features(self, rows: Sequence[Row]) -> sparse.csr_matrix:
        return feature_matrix(self.ids([row.text for row in rows]))


def labels_of(rows: Sequence[Row]) -> NDArray[np.int64]:
    return np.array([row.label_index for row in rows], dtype=np.int64)


def training_rows(rows: Sequence[Row], seed: int) -> list[Row]:
    """The training split, its variants, and messages of our own writing with theirs."""
    rng = random.Random(seed)  # noqa: S311 (repeatable on purpose)
    own = make_rows(rng, MODERN_PER_PATTERN, held_out=False)
    real = in_split(rows, "train")
    return [*real, *own, *augment([*real, *own], rng)]


def fit_rows(
    rows: Sequence[Row], *, seed: int, report: Report, options: FitOptions
) -> TrainingResult:
    """Fit on the training split of `rows`, calibrate on validation; test is not looked at."""
    started = time.monotonic()
    lexicon = build_lexicon(in_split(rows, "train"))
    encoder = Encoder(lexicon)
    chosen = training_rows(rows, seed)
    report(f"{len(chosen)} rows to train on, {len(lexicon)} words known")
    features = encoder.features(chosen)
    report(f"{features.nnz / len(chosen):.0f} features a row")
    weights = np.array([WEAK_ROW_WEIGHT if row.weak else 1.0 for row in chosen], dtype=np.float32)
    model = fit(
        features,
        labels_of(chosen),
        weights,
        seed=seed,
        options=options,
        report=report,
    )
    valid = in_split(rows, "valid")
    temperature = fit_temperature(model.logits(encoder.features(valid)), labels_of(valid))
    seconds = time.monotonic() - started
    return TrainingResult(model, temperature, lexicon, len(chosen), seconds)


def export(result: TrainingResult, repository: Path) -> int:
    """Write the classifier and its word list into a model repository; returns the model's bytes.

    Raises:
        ValueError: the model came out larger than a committed file may be.
    """
    model = build_model(result.model.weights, result.model.bias, result.temperature)
    target = repository / "classifier" / "1"
    target.mkdir(parents=True, exist_ok=True)
    size = write_model(model, target / "model.onnx")
    if size >= MAX_FILE_BYTES:
        raise ValueError(f"the model is {size} bytes: it must stay under {MAX_FILE_BYTES}")
    lexicon = repository / "tokenizer" / "1" / "lexicon.txt"
    lexicon.parent.mkdir(parents=True, exist_ok=True)
    lexicon.write_text(lexicon_text(result.lexicon), "ascii")
    return size


def train(
    data: Path,
    repository: Path,
    *,
    seed: int,
    report: Report,
    functional: Path | None = None,
    options: FitOptions | None = None,
) -> Evaluation:
    """Train, export, measure, write the model card.

    Args:
        data: JSON-lines file with train, valid and test rows.
        repository: model repository to write `classifier` and the tokenizer's word list into.
        seed: of everything that is drawn; the same seed and data give the same files.
        report: told about progress, one line at a time.
        functional: JSON-lines file of functional tests, only ever measured.
        options: how to fit.

    Returns:
        The figures of the model card.
    """
    rows = read_rows(data)
    result = fit_rows(rows, seed=seed, report=report, options=options or FitOptions())
    size = export(result, repository)
    report("measuring what was exported")
    own = make_rows(random.Random(seed), MODERN_MEASURED_PER_PATTERN, held_out=True)  # noqa: S311
    evaluation = evaluate(
        ServedModel(repository, TOKENIZER_DIR),
        rows,
        own,
        read_rows(functional) if functional else [],
    )
    training = Training(
        seed=seed,
        rows=result.trained_rows,
        seconds=result.seconds,
        temperature=result.temperature,
        words=len(result.lexicon),
        size_bytes=size,
    )
    card = repository / "classifier" / "MODEL_CARD.md"
    card.write_text(card_text(training, evaluation), "utf-8")
    return evaluation
