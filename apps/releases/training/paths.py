"""Where the model repository is, and how training borrows the tokenizer's own code from it.

The normaliser must be one implementation: it runs inside Triton (NumPy 1, no Django, no package
around it) and in training (NumPy 2). So it lives with the model, and training loads it by its path.
"""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

MODEL_REPOSITORY = Path(__file__).resolve().parents[3] / "triton_models"
TOKENIZER_DIR = MODEL_REPOSITORY / "tokenizer" / "1"
CLASSIFIER_DIR = MODEL_REPOSITORY / "classifier"


def load_normalizer() -> ModuleType:
    """`triton_models/tokenizer/1/normalizer.py` as a module."""
    return load_file(TOKENIZER_DIR / "normalizer.py")


@cache
def served_normalizer() -> Any:
    """The normaliser as Triton runs it: one a process, whoever asks."""
    return load_normalizer().Normalizer(TOKENIZER_DIR)


def load_ngrams() -> ModuleType:
    """`triton_models/tokenizer/1/ngrams.py` as a module."""
    return load_file(TOKENIZER_DIR / "ngrams.py")


@cache
def load_file(path: Path) -> ModuleType:
    """A file that no package holds, as a module."""
    name = f"chatwarden_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module in {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
