"""Undo what people do to a text so that a filter misreads it, and turn the result into ids.

One implementation for the server and for training; it needs NumPy (1 or 2) and nothing of ours.

Two ways lead to the same ids. `Normalizer.encode` takes a whole batch as one UTF-32 array: a
look-up gives every character's id and flags, and a few comparisons of neighbours find the messages
in which something may have to be undone. Most have nothing, and are done. The others go through
`Normalizer.normalize`, one at a time, which also keeps the offset of every character in the raw
text. A property test holds the two together: for every text both give the same ids.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise, product
from pathlib import Path
from typing import NamedTuple

import numpy as np

# What a code point is, after folding. The table (characters.npz) holds one word of these for each.
(
    SPACE, LETTER, LATIN, CYRILLIC, GREEK, OTHER_ALPHABET, HISTORIC, CJK, DIGIT, LEET, SPLITTER,
    PICTURE, USES_JOINERS, INVISIBLE, JOINER, SELECTOR, TAG, BIDI, EXPANDS, COMPOSES, STYLED,
    COMBINING, MARK, FOREIGN_SPLITTER, FOLDS,
) = (1 << bit for bit in range(25))  # fmt: skip

# What was undone: the bits of the UNDONE output. Names are part of the API (a verdict's reasons).
UNDONE_BITS = {
    "invisible_chars": 1 << 0,
    "look_alikes": 1 << 1,
    "spaced_letters": 1 << 2,
    "stretched": 1 << 3,
    "full_width": 1 << 4,  # full-width, mathematical, boxed and circled letters
    "leet": 1 << 5,
    "bidi_controls": 1 << 6,
    "encoded_links": 1 << 7,
    "combining_marks": 1 << 8,
    "invalid_utf8": 1 << 9,
    "truncated": 1 << 10,
}

# Above this a message is judged by its head and its tail: the cost of one message is bounded, and
# the two ends are where an advert puts its hook and its contact.
MAX_JUDGED_CHARS = 2_000
HEAD_CHARS = 1_400
TAIL_CHARS = MAX_JUDGED_CHARS - HEAD_CHARS - 1

# Undoing one thing can uncover another (an encoded link that holds invisible characters).
MAX_ROUNDS = 8

SEPARATOR = "\0"
BLACK_FLAG = "\U0001f3f4"  # England's flag and its kind are this and a run of tag characters
OVERLAYS = {*range(0x334, 0x339), 0x488, 0x489, *range(0x20DD, 0x20E1), 0x20E2, 0x20E4}
PLAIN_BIDI_MARKS = "\u200e\u200f\u061c"
ALPHABETS = LATIN | CYRILLIC | GREEK | OTHER_ALPHABET | HISTORIC
HIDDEN = INVISIBLE | JOINER | SELECTOR | TAG | BIDI
ALWAYS_SUSPECT = (
    INVISIBLE | TAG | BIDI | EXPANDS | COMPOSES | STYLED | MARK | HISTORIC
)  # a lone one is enough to look closer

LEET_LETTERS = {
    "0": "o", "1": "il", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i",
    "|": "li", "+": "t", "€": "e", "£": "l",
}  # fmt: skip
LEET_WORD = re.compile(r"[a-zA-Z0-9@$!|+€£]{3,}")
INSIDE_ONLY = "!|+@€£"  # at the edge of a word these are punctuation, mentions and prices
MAX_LEET_VARIANTS = 16
STRETCH = re.compile(r"([^\W\d_])\1\1+", re.IGNORECASE)
WORD = re.compile(r"[^\W\d_]+")
PERCENT_RUN = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
NESTED_PERCENT = re.compile(r"%(?:25)+(?=[0-9A-Fa-f]{2})")
NO_SPACE = re.compile(r"\S+")
PUNYCODE_LABEL = re.compile(r"(?<![A-Za-z0-9-])xn--([A-Za-z0-9-]{1,59})", re.IGNORECASE)

# Shapes: one ASCII letter a character, so that patterns over kinds of characters are plain
# regexes: h ideograph or kana, a letter, 0 digit, s space, p splitter, q one that is a leet letter,
# too, d one that nobody writes between ideographs.
SPACED_CJK = re.compile(r"(?<!h)h(?:(?:s{1,3}|s?[pqd]{1,2}s?)h(?!h)){2,}")
SPLIT_CJK = re.compile(r"(?<=h)d{1,2}(?=h)")
SPACE_IN_CJK = re.compile(r"(?<=h)s+(?=h)")
SPACED_LETTERS = re.compile(r"(?<![a0hq])a(?:[spqd][a0](?![a0h])){2,}")
# How far apart SPACED_CJK allows two ideographs to be.
FARTHEST_IDEOGRAPH = 5
SPACES = re.compile(r"s{2,}|^s|s$")


class Normalized(NamedTuple):
    """A text with everything undone.

    `offsets[i]` is the index in the raw text (code points) of the character that became `text[i]`.
    `undone` is a mask of `UNDONE_BITS`.
    """

    text: str
    offsets: list[int]
    undone: int


class Encoded(NamedTuple):
    """A batch as the classifier takes it: `[n, longest]` INT64 twice, and `[n]` INT32."""

    input_ids: np.ndarray
    attention_mask: np.ndarray
    undone: np.ndarray


class CharacterTable:
    """What is known about each code point; `apps.releases.training.character_table` makes it."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as stored:
            self.unicode_version = str(stored["unicode_version"])
            # Stored as differences (modulo 2^32), which compress to almost nothing.
            every = np.arange(len(stored["fold_shift"]), dtype=np.uint32)
            self.fold = every + stored["fold_shift"]
            self.ids = (every + stored["id_shift"]).astype(np.int64)
            self.flags = stored["flags"] | np.where(stored["fold_shift"], np.uint32(FOLDS), 0)
            self.twin = stored["twin"]
            self.wide = stored["wide"]
            expanding = stored["expanding"].tolist()
            self.expansions = dict(
                zip(map(chr, expanding), stored["expansions"].tolist(), strict=True)
            )
        self.shapes = self._make_shapes()
        self.cyrillic_twins = self._twins_into(CYRILLIC)
        self.greek_twins = self._twins_into(GREEK)

    def _make_shapes(self) -> np.ndarray:
        shapes = np.full(len(self.flags), ord("x"), dtype=np.uint8)
        kinds = ((LEET, "0"), (SPLITTER, "p"), (LETTER, "o"), (ALPHABETS, "a"), (CJK, "h"))
        for flag, shape in (*kinds, (DIGIT, "0"), (SPACE, "s")):
            shapes[(self.flags & flag) != 0] = ord(shape)
        # A splitter that is also a leet letter: between letters it splits ("c+a+s+h").
        shapes[(self.flags & (LEET | SPLITTER)) == (LEET | SPLITTER)] = ord("q")
        shapes[(self.flags & FOREIGN_SPLITTER) != 0] = ord("d")
        return shapes

    def _twins_into(self, script: int) -> dict[str, str]:
        """Latin letters that are drawn like a letter of the other script, in both cases."""
        found: dict[str, str] = {}
        for code_point in np.flatnonzero((self.flags & script != 0) & (self.twin != 0)).tolist():
            found.setdefault(chr(self.twin[code_point]), chr(code_point))
        return found


class Draft:
    """A text while it is being undone, with where each of its characters came from."""

    def __init__(self, table: CharacterTable, text: str) -> None:
        self._table = table
        self.text = text
        self.offsets = list(range(len(text)))
        self.undone = 0
        self._measure()

    def _measure(self) -> None:
        self.codes = to_codes(self.text)
        flags = self._table.flags[self.codes]
        self.has = int(np.bitwise_or.reduce(flags)) if len(flags) else 0
        self.flags: list[int] = flags.tolist()
        self._shape: str | None = None

    def shape(self) -> str:
        """The kinds of the characters as a string, for the patterns above."""
        if self._shape is None:
            self._shape = self._table.shapes[self.codes].tobytes().decode("ascii")
        return self._shape

    def replace(self, edits: Sequence[tuple[int, int, str]], undone: int = 0) -> None:
        """Put `(start, end, new text)` in, sorted and apart, and note what that undid."""
        if not edits:
            return
        parts: list[str] = []
        offsets: list[int] = []
        done = 0
        for start, end, new in edits:
            parts += (self.text[done:start], new)
            offsets += self.offsets[done:start]
            offsets += [
                self.offsets[start + i * (end - start) // len(new)] for i in range(len(new))
            ]
            done = end
        self.text = "".join((*parts, self.text[done:]))
        self.offsets = offsets + self.offsets[done:]
        self.undone |= undone
        self._measure()

    def words(self) -> Iterator[tuple[int, int]]:
        """Runs of letters, marks and digits, without CJK."""
        inside = LETTER | COMBINING | DIGIT
        at = 0
        for is_word, run in groupby(
            self.flags, lambda flag: bool(flag & inside and not flag & CJK)
        ):
            length = sum(1 for _ in run)
            if is_word:
                yield at, at + length
            at += length


class Normalizer:
    """The tokenizer's whole work. Reads its table and its word list once."""

    def __init__(self, directory: Path, lexicon: frozenset[str] | None = None) -> None:
        self.table = CharacterTable(directory / "characters.npz")
        if lexicon is None:
            lexicon = frozenset((directory / "lexicon.txt").read_text("ascii").split())
        self.lexicon = lexicon
        self._steps: tuple[Callable[[Draft], None], ...] = (
            self._decode_links,
            self._fold,
            self._compose,
            self._drop_hidden,
            self._replace_look_alikes,
            self._join_cjk,
            self._join_letters,
            self._read_leet,
            self._shrink,
            self._trim,
        )

    # One message, with offsets

    def normalize(self, text: str) -> Normalized:
        """Undo everything in one text. Lone surrogates become U+FFFD; never raises."""
        text, offsets, cut = cut_middle(replace_surrogates(text))
        draft = Draft(self.table, text)
        for _ in range(MAX_ROUNDS):
            before = draft.text
            for step in self._steps:
                step(draft)
            if draft.text == before:
                break
        raw = [offsets[i] for i in draft.offsets] if cut else draft.offsets
        return Normalized(draft.text, raw, draft.undone | cut)

    def ids(self, text: str) -> np.ndarray:
        """The ids of a normalised text; characters that carry nothing have none."""
        ids = self.table.ids[to_codes(text)]
        return ids[ids != 0]

    def id_offsets(self, normalized: Normalized) -> np.ndarray:
        """For each id of `ids(normalized.text)`, its index in the raw text."""
        kept = self.table.ids[to_codes(normalized.text)] != 0
        return np.asarray(normalized.offsets, dtype=np.int64)[kept]

    def _decode_links(self, draft: Draft) -> None:
        if "%" in draft.text:
            draft.replace(list(percent_edits(draft.text)), UNDONE_BITS["encoded_links"])
        if "n--" in draft.text.lower():
            draft.replace(list(punycode_edits(draft.text)), UNDONE_BITS["encoded_links"])

    def _fold(self, draft: Draft) -> None:
        if draft.has & STYLED:
            draft.undone |= UNDONE_BITS["full_width"]
        expansions = self.table.expansions
        if draft.has & EXPANDS:
            draft.replace(
                [(i, i + 1, expansions[c]) for i, c in enumerate(draft.text) if c in expansions]
            )
        if draft.has & FOLDS:
            draft.replace([(0, len(draft.text), to_text(self.table.fold[draft.codes]))])

    def _compose(self, draft: Draft) -> None:
        if not draft.has & (COMPOSES | MARK):
            return
        edits, disguised = [], False
        for start, end in combining_clusters(draft.flags):
            cluster = draft.text[start:end]
            composed = unicodedata.normalize("NFC", cluster)
            marks = [c for c in composed[1:] if self.table.flags[ord(c)] & MARK]
            if len(marks) > 2 or any(ord(c) in OVERLAYS for c in marks):
                composed = "".join(c for c in composed if c not in marks)
                disguised = True
            if composed != cluster:
                edits.append((start, end, composed))
        draft.replace(edits, UNDONE_BITS["combining_marks"] if disguised else 0)

    def _drop_hidden(self, draft: Draft) -> None:
        if not draft.has & HIDDEN:
            return
        edits, undone = [], 0
        for start, end in hidden_runs(draft):
            edits.append((start, end, ""))
            undone |= self._what_hiding(draft, start, end)
        if sum(end - start for start, end, _ in edits) == len(draft.text):
            undone |= UNDONE_BITS["invisible_chars"]
        draft.replace(edits, undone)

    def _what_hiding(self, draft: Draft, start: int, end: int) -> int:
        """Which bits a dropped run earns: none for what editors and phones leave behind."""
        run = draft.text[start:end]
        before = draft.flags[start - 1] if start else 0
        after = draft.flags[end] if end < len(draft.text) else 0
        flags = draft.flags[start]
        undone = 0
        if flags & BIDI and any(c not in PLAIN_BIDI_MARKS for c in run):
            undone |= UNDONE_BITS["bidi_controls"]
        if before & (PICTURE | MARK) or (flags & SELECTOR and before & (CJK | DIGIT)):
            return undone
        in_word = before & LETTER and after & LETTER and not before & USES_JOINERS
        is_payload = len(run) > 2 or flags & (TAG | SELECTOR)
        return undone | (UNDONE_BITS["invisible_chars"] if in_word or is_payload else 0)

    def _replace_look_alikes(self, draft: Draft) -> None:
        if not draft.has & (CYRILLIC | GREEK | OTHER_ALPHABET | HISTORIC):
            return
        edits = []
        for start, end in draft.words():
            word = draft.text[start:end]
            plain = self._without_look_alikes(word, draft.flags[start:end])
            if plain != word:
                edits.append((start, end, plain))
        draft.replace(edits, UNDONE_BITS["look_alikes"])

    def _without_look_alikes(self, word: str, flags: list[int]) -> str:
        """The word in one script, if scripts are mixed in it; one script is a language."""
        scripts = {flag & ALPHABETS for flag in flags} - {0}
        if len(scripts) < 2 and not scripts <= {HISTORIC}:
            return word
        foreign = [c for c, flag in zip(word, flags, strict=True) if flag & ALPHABETS & ~LATIN]
        latin = [c for c, flag in zip(word, flags, strict=True) if flag & LATIN]
        twin, wide = self.table.twin, self.table.wide
        if all(twin[ord(c)] for c in foreign):
            return "".join(chr(twin[ord(c)] or ord(c)) for c in word)
        for script, twins in (
            (CYRILLIC, self.table.cyrillic_twins),
            (GREEK, self.table.greek_twins),
        ):
            if scripts == {LATIN, script} and all(c in twins for c in latin):
                return "".join(twins.get(c, c) for c in word)
        if all(twin[ord(c)] or wide[ord(c)] for c in foreign):
            return "".join(chr(twin[ord(c)] or wide[ord(c)] or ord(c)) for c in word)
        return word

    def _join_cjk(self, draft: Draft) -> None:
        if not draft.has & CJK:
            return
        edits = []
        for match in SPACED_CJK.finditer(draft.shape()):
            pieces = enumerate(draft.text[match.start() : match.end()], match.start())
            edits += [(i, i + 1, "") for i, _ in pieces if not draft.flags[i] & CJK]
        draft.replace(edits, UNDONE_BITS["spaced_letters"])
        split = [(*match.span(), "") for match in SPLIT_CJK.finditer(draft.shape())]
        draft.replace(split, UNDONE_BITS["spaced_letters"])
        # Elsewhere a space between two ideographs is punctuation, not a disguise.
        draft.replace([(*match.span(), "") for match in SPACE_IN_CJK.finditer(draft.shape())])

    def _join_letters(self, draft: Draft) -> None:
        edits: list[tuple[int, int, str]] = []
        for match in SPACED_LETTERS.finditer(draft.shape()):
            spaced = draft.text[match.start() : match.end()]
            if len(set(spaced[1::2])) == 1 and self._is_spaced_word(spaced[::2]):
                edits += [(i, i + 1, "") for i in range(match.start() + 1, match.end(), 2)]
        draft.replace(edits, UNDONE_BITS["spaced_letters"])

    def _is_spaced_word(self, letters: str) -> bool:
        """Tell `c a s i n o` from a list of variables, an alphabet or the answers of a quiz."""
        lower = letters.lower()
        if lower in self.lexicon or self._unleet(lower) != lower:
            return True
        steps = {ord(b) - ord(a) for a, b in pairwise(lower)}
        vowels = sum(c in "aeiouyаеёиоуыэюя" for c in lower)
        return (
            len(letters) >= 5
            and letters.isalpha()
            and len(set(lower)) > 2
            and not steps <= {0, 1}
            and not set(lower) <= set("abcdef")
            and 0 < vowels < len(letters)
        )

    def _read_leet(self, draft: Draft) -> None:
        if not draft.has & LEET or not draft.has & LATIN:
            return
        draft.replace(list(self._leet_edits(draft.text)), UNDONE_BITS["leet"])

    def _leet_edits(self, text: str) -> Iterator[tuple[int, int, str]]:
        for match in LEET_WORD.finditer(text):
            if match.group().isalpha():
                continue
            word = match.group().strip(INSIDE_ONLY)
            if word.isdigit() or (plain := self._unleet(word)) == word:
                continue
            start = match.start() + match.group().index(word)
            yield start, start + len(word), plain

    def _unleet(self, word: str) -> str:
        """The word with its digits read as letters, if that makes a known word; else unchanged."""
        signs = [c for c in word if c in LEET_LETTERS]
        if not signs or len(word) < 3 or len(signs) == len(word) or len(signs) > 5:
            return word
        choices = [LEET_LETTERS.get(c, c) for c in word]
        for letters in list(product(*choices))[:MAX_LEET_VARIANTS]:
            candidate = "".join(letters)
            lower = candidate.lower()
            if lower in self.lexicon or squeeze(lower) in self.lexicon:
                return candidate
        return word

    def _shrink(self, draft: Draft) -> None:
        if not STRETCH.search(draft.text):
            return
        edits = []
        for match in WORD.finditer(draft.text):
            word = match.group()
            if STRETCH.search(word) and not draft.flags[match.start()] & CJK:
                # Ideographs say something by being repeated, also behind a letter.
                runs = [
                    run
                    for run in STRETCH.finditer(word)
                    if run.group(1).isalpha() and not draft.flags[match.start() + run.start()] & CJK
                ]
                edits += self._shrink_runs(word, runs, match.start())
        draft.replace(edits, UNDONE_BITS["stretched"])

    def _shrink_runs(
        self, word: str, runs: list[re.Match[str]], at: int
    ) -> list[tuple[int, int, str]]:
        """Shorten runs to one letter or two, whichever makes a known word; else to one."""
        lower = word.lower()
        if lower in self.lexicon or (len(set(lower)) == 1 and len(word) < 4):
            return []
        for lengths in product((1, 2), repeat=min(len(runs), 4)):
            kept = [*lengths, *[1] * (len(runs) - len(lengths))]
            candidate, done = "", 0
            for run, length in zip(runs, kept, strict=True):
                candidate += lower[done : run.start()] + lower[run.start()] * length
                done = run.end()
            if candidate + lower[done:] in self.lexicon:
                break
        else:
            kept = [1] * len(runs)
        return [
            (at + run.start() + length, at + run.end(), "")
            for run, length in zip(runs, kept, strict=True)
        ]

    def _trim(self, draft: Draft) -> None:
        if not draft.has & SPACE:
            return
        last = len(draft.text)
        edits = []
        for match in SPACES.finditer(draft.shape()):
            start, end = match.span()
            edits.append((start, end, "" if start == 0 or end == last else " "))
        draft.replace(edits)

    # A whole batch

    def encode(self, texts: Sequence[bytes]) -> Encoded:
        """UTF-8 texts to padded ids. Broken bytes become U+FFFD in their message alone."""
        rows, undone = decode_rows(texts)
        for row, text in enumerate(rows):
            if len(text) > MAX_JUDGED_CHARS:
                rows[row], _, cut = cut_middle(text)
                undone[row] |= cut
        batch = self._look_up(rows)
        keep = keep_mask(batch)
        slow = {}
        for row in self._rows_to_undo(rows, batch):
            keep[batch.starts[row] : batch.ends[row]] = False
            normalized = self.normalize(rows[row])
            slow[row] = self.ids(normalized.text)
            undone[row] |= normalized.undone
        kept_before = np.concatenate(([0], np.cumsum(keep)))
        lengths = kept_before[batch.ends] - kept_before[batch.starts]
        for row, own in slow.items():
            lengths[row] = len(own)
        return pad_rows(batch.ids[keep], lengths, slow, np.array(undone, dtype=np.int32))

    def undo(self, texts: Sequence[str]) -> dict[int, tuple[str, int]]:
        """The texts in which something was undone: by their place in the batch, with what it was.

        For whoever compares texts with words. None may hold a lone surrogate.
        """
        found = {}
        for row in self._rows_to_undo(texts, self._look_up(texts)):
            normalized = self.normalize(texts[row])
            if normalized.undone:
                found[row] = (normalized.text, normalized.undone)
        return found

    def _look_up(self, rows: Sequence[str]) -> "Flat":
        """All rows as one array with a separator after each."""
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        codes = to_codes(SEPARATOR.join((*rows, "")))
        ends = np.cumsum(lengths + 1) - 1
        flags, ids = self.table.flags[codes], self.table.ids[codes]
        flags[ends] = 0  # a NUL of a message's own is flagged, a separator is nothing
        return Flat(ids, flags, ends - lengths, ends)

    def _rows_to_undo(self, rows: Sequence[str], batch: "Flat") -> list[int]:
        """Rows in which something may have to be undone; `normalize` leaves the others alone."""
        found = set(batch.rows_at(suspect_positions(batch)))
        if np.bitwise_or.reduce(batch.flags, initial=0) & (CYRILLIC | GREEK | OTHER_ALPHABET):
            found.update(mixed_rows(batch))
        for row, text in enumerate(rows):
            if "n--" in text or "N--" in text:
                found.add(row)
        maybe_leet = set(batch.rows_at(leet_positions(batch))) - found
        return sorted(found.union(row for row in maybe_leet if self._has_leet(rows[row])))

    def _has_leet(self, text: str) -> bool:
        folded = text if text.isascii() else to_text(self.table.fold[to_codes(text)])
        return any(True for _ in self._leet_edits(folded))


class Flat(NamedTuple):
    """A batch as one array: ids and flags of every character, a separator (0, 0) after each row."""

    ids: np.ndarray
    flags: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def rows_at(self, positions: np.ndarray) -> list[int]:
        """The rows that hold these positions, each once."""
        rows = np.searchsorted(self.starts, positions, side="right") - 1
        return np.unique(rows).tolist()

    def neighbour(self, values: np.ndarray, distance: int) -> np.ndarray:
        """For each position the value so far after it (before, if negative); 0 outside."""
        moved = np.zeros_like(values)
        if distance > 0:
            moved[:-distance] = values[distance:]
        else:
            moved[-distance:] = values[:distance]
        return moved


def to_codes(text: str) -> np.ndarray:
    """The code points of a text without surrogates."""
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


def to_text(codes: np.ndarray) -> str:
    """The text of an array of code points."""
    return codes.astype("<u4").tobytes().decode("utf-32-le")


def replace_surrogates(text: str) -> str:
    """Lone surrogates can't be encoded; they become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def cut_middle(text: str) -> tuple[str, Sequence[int], int]:
    """Head and tail of a text that is too long, with offsets and the `truncated` bit."""
    if len(text) <= MAX_JUDGED_CHARS:
        return text, range(len(text)), 0
    tail = len(text) - TAIL_CHARS
    offsets = [*range(HEAD_CHARS + 1), *range(tail, len(text))]
    return f"{text[:HEAD_CHARS]} {text[tail:]}", offsets, UNDONE_BITS["truncated"]


def squeeze(word: str) -> str:
    """Every run of one letter as a single letter."""
    return "".join(letter for letter, _ in groupby(word))


def percent_edits(text: str) -> Iterator[tuple[int, int, str]]:
    """Percent-encoded UTF-8 inside links; a price with a percent sign is not a link."""
    for link in NO_SPACE.finditer(text):
        if "%" not in link.group() or not set(link.group()) & set("/.?="):
            continue
        # Encoded again and again: all layers but the last go at once, so depth costs nothing.
        nested = [(*layers.span(), "%") for layers in NESTED_PERCENT.finditer(text, *link.span())]
        if nested:
            yield from nested
            continue
        for run in PERCENT_RUN.finditer(text, *link.span()):
            try:
                decoded = bytes.fromhex(run.group().replace("%", "")).decode()
            except UnicodeDecodeError:
                continue
            yield *run.span(), decoded


def punycode_edits(text: str) -> Iterator[tuple[int, int, str]]:
    """Host labels in punycode."""
    for label in PUNYCODE_LABEL.finditer(text):
        try:
            decoded = label.group(1).encode("ascii").decode("punycode")
            decoded.encode("utf-8")
        except (UnicodeError, ValueError, OverflowError):
            continue
        if decoded:
            yield *label.span(), decoded


def combining_clusters(flags: list[int]) -> Iterator[tuple[int, int]]:
    """A character and what may combine with it."""
    start = 0
    for i in range(1, len(flags) + 1):
        if i < len(flags) and flags[i] & (COMBINING | COMPOSES | MARK):
            continue
        if i - start > 1:
            yield start, i
        start = i


def hidden_runs(draft: Draft) -> Iterator[tuple[int, int]]:
    """Runs of characters that draw nothing, without the joiners that spelling or an emoji needs."""
    start = None
    for i, flag in enumerate([*draft.flags, 0]):
        hidden = flag & HIDDEN and not (flag & JOINER and is_needed_joiner(draft.flags, i))
        if hidden and start is None:
            start = i
        elif not hidden and start is not None:
            yield start, i
            start = None


def is_needed_joiner(flags: list[int], at: int) -> bool:
    """Persian, Indic scripts and emoji are spelt with joiners."""
    before = at - 1
    while before >= 0 and flags[before] & SELECTOR:
        before -= 1
    return before >= 0 and bool(flags[before] & (USES_JOINERS | PICTURE))


def decode_rows(texts: Sequence[bytes]) -> tuple[list[str], list[int]]:
    """Decode each text; what is not UTF-8 is replaced and noted."""
    try:
        return [text.decode() for text in texts], [0] * len(texts)
    except UnicodeDecodeError:
        rows = [text.decode("utf-8", "replace") for text in texts]
        bit = UNDONE_BITS["invalid_utf8"]
        return rows, [
            0 if row.encode() == text else bit for row, text in zip(rows, texts, strict=True)
        ]


def keep_mask(batch: Flat) -> np.ndarray:
    """Which characters have an id of their own once spaces are trimmed."""
    keep = batch.ids != 0
    spaces = np.flatnonzero(batch.flags & SPACE)
    if len(spaces):
        # A space stays between two characters unless both are ideographs. (Runs of spaces and
        # spaces beside hidden characters go the slow way.)
        before, after = spaces - 1, spaces + 1
        before_id = np.where(spaces > 0, batch.ids[before], 0)
        ideographs = batch.flags[before] & batch.flags[after] & CJK
        keep[spaces] = (before_id != 0) & (batch.ids[after] != 0) & (ideographs == 0)
    return keep


def suspect_positions(batch: Flat) -> np.ndarray:
    """Where a batch holds something that `normalize` may want to undo, but for leet."""
    ids, flags = batch.ids, batch.flags
    before, after = batch.neighbour(flags, -1), batch.neighbour(flags, 1)
    suspect = (flags & ALWAYS_SUSPECT) != 0
    if np.bitwise_or.reduce(flags, initial=0) & (SELECTOR | JOINER):
        lone = (flags & SELECTOR != 0) & (before & (PICTURE | CJK | DIGIT) == 0)
        needless = (flags & JOINER != 0) & (before & (USES_JOINERS | PICTURE | SELECTOR) == 0)
        beside_space = (flags & HIDDEN != 0) & ((before | after) & SPACE != 0)
        suspect |= lone | needless | beside_space
    suspect |= (flags & before & SPACE) != 0
    suspect |= (ids == ord("%")) & (after & (DIGIT | LATIN) != 0)
    suspect |= spaced_letters(batch)
    suspect |= (flags & FOREIGN_SPLITTER != 0) & ((before | after) & CJK != 0)
    same = ids[1:] == ids[:-1]
    triple = np.flatnonzero(same[1:] & same[:-1])
    stretched = triple[(flags[triple] & LETTER != 0) & (flags[triple] & CJK == 0)]
    return np.concatenate(
        (np.flatnonzero(suspect), stretched, spaced_ideographs(flags, before, after))
    )


def spaced_ideographs(flags: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Where an ideograph stands alone between two others that do, at most four signs away."""
    split = SPACE | SPLITTER
    alone = (flags & CJK != 0) & ((before | after) & CJK == 0)
    middle = np.flatnonzero(alone & (before & split != 0) & (after & split != 0))
    if not len(middle):
        return middle
    reach = np.arange(2, FARTHEST_IDEOGRAPH + 1)
    last = len(flags) - 1
    ahead = alone[np.minimum(middle[:, None] + reach, last)].any(axis=1)
    behind = alone[np.maximum(middle[:, None] - reach, 0)].any(axis=1)
    return middle[ahead & behind]


def spaced_letters(batch: Flat) -> np.ndarray:
    """Where a letter stands alone and the next two letters or digits do, too: `c a s`."""
    flags = batch.flags
    wordy = (flags & (ALPHABETS | CJK | DIGIT | LEET) != 0) & (flags & SPLITTER == 0)
    alone = wordy & ~batch.neighbour(wordy, 1)
    three = alone & batch.neighbour(alone, 2) & batch.neighbour(alone, 4)
    return three & (flags & ALPHABETS != 0) & ~batch.neighbour(wordy, -1)


def leet_positions(batch: Flat) -> np.ndarray:
    """Where a sign that can stand for a letter touches a Latin letter."""
    signs = np.flatnonzero(batch.flags & LEET)
    beside = batch.flags[signs - 1] | batch.flags[np.minimum(signs + 1, len(batch.flags) - 1)]
    return signs[beside & LATIN != 0]


def mixed_rows(batch: Flat) -> list[int]:
    """Rows that hold more than one alphabet."""
    rows = np.bitwise_or.reduceat(batch.flags, batch.starts)
    kinds = [(rows & kind) != 0 for kind in (LATIN, CYRILLIC, GREEK, OTHER_ALPHABET)]
    return np.flatnonzero(sum(kind.astype(int) for kind in kinds) > 1).tolist()


def pad_rows(
    flat: np.ndarray, lengths: np.ndarray, slow: dict[int, np.ndarray], undone: np.ndarray
) -> Encoded:
    """Lay the rows out as a rectangle, at least one wide."""
    longest = max(1, int(lengths.max(initial=0)))
    mask = np.arange(longest) < lengths[:, None]
    ids = np.zeros(mask.shape, dtype=np.int64)
    fast = mask
    if slow:
        fast = mask.copy()
        fast[list(slow)] = False
    ids[fast] = flat
    for row, own in slow.items():
        ids[row, : len(own)] = own
    return Encoded(ids, mask.astype(np.int64), undone)
