"""The model card: measured figures, where the data is from, and what the model can't do."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.releases.training.corpus import LABELS
from apps.releases.training.evaluation import (
    FIRST_ROWS,
    LANGUAGES_WITH_ALL_LABELS,
    LOW_RATE,
    Evaluation,
)
from apps.releases.training.features import BUCKETS, LONGEST_NGRAM
from apps.releases.training.measuring import Figures

SOURCES = (
    ("sms_spam_collection", "CC BY 4.0", "English SMS, 2004-2011"),
    ("youtube_spam_collection", "CC BY 4.0", "comments under five music videos, 2013-2015"),
    ("tg_spam", "MIT", "Telegram, mostly Russian IT groups"),
    ("janitr", "MIT", "posts about crypto, 2026; labelled by AI models"),
    ("text_antispam", "MIT", "Chinese SMS marketing of 2015, news and microblog pieces"),
    ("addetector4j", "MIT", "Chinese QQ game groups"),
    ("cold", "Apache-2.0", "Chinese comments about race, gender, region"),
    ("swsr", "MIT", "Chinese microblog threads about feminism"),
    ("chatterbot_corpus", "BSD-3-Clause", "small talk written for bots, 20 languages"),
    ("kdconv", "Apache-2.0", "Chinese dialogues about films, music, travel"),
    ("irc_disentanglement", "CC BY 4.0", "English support channels, 2004-2018"),
    ("davidson", "MIT", "English tweets"),
    ("surge_toxicity", "MIT", "English social-media comments"),
    ("toxic_spans", "CC0-1.0", "English news comments"),
    ("edos", "CC0-1.0", "English sexist posts"),
    ("hatemoji_build", "CC BY 4.0", "English adversarial pairs with emoji"),
    ("germeval2018", "CC BY 4.0", "German tweets about politics"),
    ("curse_detection_ko", "MIT", "Korean community sites"),
)


LIMITS = """\
* Real group chat is scarce in the data: most Chinese adverts are text messages of 2015, most
  English insults are tweets and news comments. Figures on new kinds of messages are the ones under
  *messages of our own writing*, and even those patterns and the trained ones share an author.
* It sees character n-grams, not meaning: counter-speech, quoted insults and irony are where it
  errs (see the functional tests), and words for women and minorities still push it towards `toxic`.
* English and Chinese have all four labels in the data; German and Korean have `ok` and `toxic`;
  Russian has few rows. Every other language was only ever seen as `ok`: for those the table gives
  the false-positive rate, and nothing else may be concluded.
* African-American English is over-represented among the tweets labelled `toxic`.
* It is a first filter: `hold` and a person are the answer to its doubts, not `remove`."""


@dataclass(frozen=True, slots=True)
class Training:
    """How the model was made."""

    seed: int
    rows: int
    seconds: float
    temperature: float
    words: int
    size_bytes: int


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}".removeprefix("0")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    heads = list(header)
    lines = [heads, ["---"] * len(heads), *map(list, rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def test_table(groups: dict[str, Figures]) -> str:
    """All figures where all labels occur, the false-positive rate elsewhere."""
    rows = []
    for lang, figures in groups.items():
        complete = lang in (*LANGUAGES_WITH_ALL_LABELS, "all")
        labels = [
            "/".join(decimal(v) for v in (one.precision, one.recall, one.f1)) if complete else ""
            for one in (figures.by_label[label] for label in LABELS)
        ]
        flagged = [decimal(figures.flagged_f1) if figures.auc is not None else ""]
        auc = [decimal(figures.auc) if figures.auc is not None else ""]
        rows.append(
            [lang, str(figures.rows), *labels, *flagged, percent(figures.false_positive_rate), *auc]
        )
    return table(["lang", "rows", *LABELS, "flagged F1", "flagged FPR", "AUC"], rows)


def group_table(name: str, groups: dict[str, Figures]) -> str:
    """Share of right labels, and both errors of "flagged"."""
    rows = []
    for group, figures in groups.items():
        shares = (figures.accuracy, figures.flagged_recall, figures.false_positive_rate)
        rows.append([group, str(figures.rows), *map(percent, shares)])
    return table([name, "rows", "right label", "flagged of what should be", "flagged of ok"], rows)


def about(training: Training) -> list[str]:
    """What the model is and how it was made."""
    return [
        "## What it is",
        f"A linear model over hashed character 1- to {LONGEST_NGRAM}-grams ({BUCKETS:,} buckets,"
        f" three small integer weights each, packed) with a softmax over {', '.join(LABELS)}."
        " Hashing, look-up and sum are inside the ONNX graph; a message's logits do not depend on"
        f" its batch. File: {training.size_bytes / 2**20:.1f} MiB. Every character's share in a"
        " verdict is exact (the `explainer` model).",
        f"Fitted on {training.rows:,} rows (training split, variants of it, messages of our own"
        f" writing) with seed {training.seed}; temperature {training.temperature:.3f} from the"
        f" validation split; {training.words:,} words known to the normaliser. The test split and"
        " the functional tests were only measured.",
    ]


def test_section(evaluation: Evaluation) -> list[str]:
    """Figures on the public test split."""
    low = ", ".join(f"{lang} {decimal(r)}" for lang, r in evaluation.recall_at_low_rate.items())
    return [
        "## Test split",
        "Precision/recall/F1 of the most probable label; *flagged* is anything but `ok`. Languages"
        " without all labels show only what can be said of them.",
        test_table(evaluation.test),
        f"Right labels among the first {FIRST_ROWS:,} test rows: {evaluation.first_rows_right}."
        f" Recall at the threshold that flags {percent(LOW_RATE)} of ok messages on the validation"
        f" split: {low}. Expected calibration error: {percent(evaluation.calibration_error)}.",
    ]


def group_sections(evaluation: Evaluation) -> list[str]:
    """Figures on held-out patterns of our own and on functional tests."""
    parts = [
        "## Messages of our own writing",
        "From patterns held out of training (`apps/releases/training/modern_examples.py`).",
        group_table("kind", evaluation.own),
    ]
    if evaluation.functional:
        parts += [
            "## Functional tests",
            "HateCheck and Multilingual HateCheck (CC BY 4.0): templated, contrastive, hard on"
            " purpose; never trained on.",
            group_table("suite", evaluation.functional),
        ]
    return parts


def card_text(training: Training, evaluation: Evaluation) -> str:
    """The whole card in Markdown."""
    parts = [
        "# Model card: the default classifier",
        "Written by `python manage.py train_classifier`; do not edit.",
        *about(training),
        *test_section(evaluation),
        *group_sections(evaluation),
        "## Speed",
        "CPU time on one thread, test split in length-sorted batches of 256: tokenizer"
        f" {evaluation.tokenizer_us:.1f} µs, graph {evaluation.graph_us:.1f} µs a message.",
        "## Data",
        "Public labelled messages, read at training, none of them in this repository; some labels"
        " come from rules or other models and weigh less. Beside them patterns of our own writing.",
        table(["source", "licence", "what"], SOURCES),
        "## Limits",
        LIMITS,
    ]
    return "\n\n".join(parts) + "\n"
