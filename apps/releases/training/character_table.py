"""Make the tokenizer's character table from ICU's copy of the Unicode data.

`python -m apps.releases.training.character_table` writes `characters.npz` beside the normaliser.
The table is committed, so nobody needs ICU to train or to serve: it is made again only to move to
a newer Unicode. It is a file and not `unicodedata` at start-up because the interpreters that read
it (the app's, the embedded Triton's, the one in NVIDIA's image) carry different Unicode versions,
and a model must see the same characters in all of them.

Look-alikes are Unicode's own (UTS #39 confusables, through ICU's spoof checker), with the additions
in `WIDE_LOOK_ALIKES` and the small capitals, which Unicode counts as letters of their own.
"""

import ctypes
import ctypes.util
import sys
import unicodedata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from apps.releases.training.paths import TOKENIZER_DIR, load_normalizer

CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)

# ICU's numbers for the properties used (uchar.h).
DEFAULT_IGNORABLE, WHITE_SPACE, EMOJI_PRESENTATION, EXTENDED_PICTOGRAPHIC = 5, 31, 58, 64
NFKC_QUICK_CHECK, MAYBE = 0x100F, 2
LETTER_TYPES = {1, 2, 3, 4, 5}
MARK_TYPES = {6, 7, 8}
CONTROL_TYPE, FORMAT_TYPE = 15, 16

CJK_SCRIPTS = {"Hani", "Hira", "Kana", "Bopo"}
JOINER_SCRIPTS = {
    "Arab", "Syrc", "Mong", "Nkoo", "Deva", "Beng", "Guru", "Gujr", "Orya", "Taml", "Telu",
    "Knda", "Mlym", "Sinh", "Mymr", "Khmr", "Tibt", "Laoo", "Thaa", "Adlm", "Rohg", "Mand",
}  # fmt: skip
# Nobody chats in these, so a whole word of them is a disguise, not a language.
HISTORIC_SCRIPTS = {"Copt", "Goth", "Dsrt", "Ital", "Cari", "Lyci", "Lydi", "Phnx", "Runr", "Elba"}

# Letters drawn like a Latin one in most fonts, which Unicode does not list. They count only when a
# word holds Latin letters that have no twin in the other script.
WIDE_LOOK_ALIKES = dict(
    zip(
        "вкмнтпиьзгляуĸʍⲁⲃⲉⲏⲓⲕⲗⲙⲛⲡⲥⲧⲱⲍ𐌰𐌱𐌲𐌳𐌴𐌵𐌶𐌷𐌹𐌺𐌻𐌼𐌽𐌾𐌿𐍀𐍂𐍃𐍄𐍅𐍆𐍇𐍈𐍉",
        "bkmhtnubzrlyykmabehiklmnnctwzabrdeuzhiklmnjuprstyfxoo",
        strict=True,
    )
)
BIDI_CONTROLS = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
SPLITTERS = set("-_.*·•|/\\~+=^#&★☆◆◇●○▪■□※→»«°´`'‐‑‒–—―・●")
# Nobody writes these between two ideographs but to split a word.
FOREIGN_SPLITTERS = set("*#^_|★☆◆◇●○■□※")
LEET = set("013457@$!|+€£")


class Icu:
    """The few ICU calls the table needs, over ctypes (no binding earns a dependency for this)."""

    def __init__(self) -> None:
        self.version, self._common, self._i18n = self._open()
        self._status = ctypes.c_int(0)
        self._nfkc = self._call(self._common, "unorm2_getNFKCInstance", ctypes.c_void_p)(
            ctypes.byref(self._status)
        )
        self._spoof = self._call(self._i18n, "uspoof_open", ctypes.c_void_p)(
            ctypes.byref(self._status)
        )
        self._buffer = (ctypes.c_uint16 * 256)()

    @staticmethod
    def _open() -> tuple[int, ctypes.CDLL, ctypes.CDLL]:
        for version in range(90, 65, -1):
            try:
                return (
                    version,
                    ctypes.CDLL(f"libicuuc.so.{version}"),
                    ctypes.CDLL(f"libicui18n.so.{version}"),
                )
            except OSError:
                continue
        raise SystemExit("No ICU found: install libicu (Debian: apt-get install libicu-dev).")

    def _call(self, library: ctypes.CDLL, name: str, result: Any = ctypes.c_int) -> Any:
        function = getattr(library, f"{name}_{self.version}")
        function.restype = result
        return function

    def unicode_version(self) -> str:
        parts = (ctypes.c_uint8 * 4)()
        self._call(self._common, "u_getUnicodeVersion", None)(parts)
        return f"{parts[0]}.{parts[1]}"

    def category(self, code_point: int) -> int:
        return int(self._call(self._common, "u_charType", ctypes.c_int8)(code_point))

    def has(self, code_point: int, which: int) -> bool:
        return bool(
            self._call(self._common, "u_hasBinaryProperty", ctypes.c_int8)(code_point, which)
        )

    def integer(self, code_point: int, which: int) -> int:
        return int(self._call(self._common, "u_getIntPropertyValue")(code_point, which))

    def lower(self, code_point: int) -> int:
        return int(self._call(self._common, "u_tolower")(code_point))

    def script(self, code_point: int) -> str:
        code = self._call(self._common, "uscript_getScript")(code_point, ctypes.byref(self._status))
        name: bytes = self._call(self._common, "uscript_getShortName", ctypes.c_char_p)(code)
        return name.decode()

    def _transform(self, function: Any, handle: int, arguments: tuple[Any, ...], text: str) -> str:
        units = text.encode("utf-16-le")
        source = (ctypes.c_uint16 * (len(units) // 2)).from_buffer_copy(units)
        self._status.value = 0
        length = function(
            ctypes.c_void_p(handle),
            *arguments,
            source,
            len(source),
            self._buffer,
            len(self._buffer),
            ctypes.byref(self._status),
        )
        if self._status.value > 0:
            raise RuntimeError(f"ICU error {self._status.value}")
        return bytes(self._buffer)[: 2 * length].decode("utf-16-le")

    def nfkc(self, text: str) -> str:
        return self._transform(self._call(self._common, "unorm2_normalize"), self._nfkc, (), text)

    def skeleton(self, text: str) -> str:
        function = self._call(self._i18n, "uspoof_getSkeleton")
        return self._transform(function, self._spoof, (ctypes.c_uint32(0),), text)


def styled_letters() -> dict[int, int]:
    """Letters in boxes and circles that NFKC leaves alone, and small capitals."""
    table: dict[int, int] = {}
    for first in (0x1F150, 0x1F170):  # negative circled, negative squared
        table |= {first + i: ord("A") + i for i in range(26)}
    for code_point in [*range(0x1D00, 0x1D80), *range(0x250, 0x2B0), *range(0xA720, 0xA800)]:
        name = unicodedata.name(chr(code_point), "")
        letter = name.removeprefix("LATIN LETTER SMALL CAPITAL ")
        if name != letter and len(letter) == 1:
            table[code_point] = ord(letter.lower())
    return table


def compatibility_fold(icu: Icu, code_point: int) -> str:
    """NFKC of one character, but a character that is plain punctuation in chats stays itself."""
    if code_point in (0x2026, 0x2025):  # an ellipsis is how Chinese trails off, not three stops
        return chr(code_point)
    folded = icu.nfkc(chr(code_point))
    return chr(code_point) if folded.startswith(" ") and folded != " " else folded


def identity(icu: Icu, code_point: int) -> int:
    """The id the classifier sees: lower case, without accents on Latin, Greek and Cyrillic."""
    lower = icu.lower(code_point)
    base = unicodedata.normalize("NFD", chr(lower))[0]
    plain = ord(base) if icu.script(ord(base)) in ("Latn", "Grek", "Cyrl") else lower
    return icu.lower(plain)


class TableMaker:
    """Collects one entry a code point."""

    def __init__(self, icu: Icu, flag: ModuleType) -> None:
        self.icu, self.flag = icu, flag
        self.fold = np.arange(CODE_POINTS, dtype=np.uint32)
        self.ids = np.zeros(CODE_POINTS, dtype=np.uint32)
        self.flags = np.zeros(CODE_POINTS, dtype=np.uint32)
        self.twin = np.zeros(CODE_POINTS, dtype=np.uint32)
        self.wide = np.zeros(CODE_POINTS, dtype=np.uint32)
        self.expansions: dict[int, str] = {}
        self.styled = styled_letters()

    def add(self, code_point: int) -> None:
        flag, folded = self.flag, self._fold(code_point)
        own = self._own_flags(code_point)
        if own & (flag.INVISIBLE | flag.JOINER | flag.SELECTOR | flag.BIDI | flag.TAG):
            self.flags[code_point] = own
            return
        if len(folded) != 1:
            self.expansions[code_point] = folded
            self.flags[code_point] = own | flag.EXPANDS
            self.ids[code_point] = code_point
            return
        target = ord(folded)
        self.fold[code_point] = target
        self.flags[code_point] = own | self._shared_flags(target)
        if (
            target != code_point
            and folded.isascii()
            and folded.isalnum()
            and self._is_styled(code_point)
        ):
            self.flags[code_point] |= flag.STYLED
        self.ids[code_point] = 0 if own & flag.MARK else identity(self.icu, target)
        if self.flags[code_point] & flag.SPACE:
            self.ids[code_point], self.fold[code_point] = 32, 32

    def _fold(self, code_point: int) -> str:
        if code_point in self.styled:
            return chr(self.styled[code_point])
        return compatibility_fold(self.icu, code_point)

    def _is_styled(self, code_point: int) -> bool:
        kind = unicodedata.decomposition(chr(code_point)).split(" ")[0]
        return (
            code_point in self.styled
            or kind in ("<wide>", "<font>", "<square>")
            or (kind == "<circle>" and chr(self.fold[code_point]).isalpha())
        )

    def _own_flags(self, code_point: int) -> int:
        icu, flag = self.icu, self.flag
        category = icu.category(code_point)
        if icu.has(code_point, WHITE_SPACE):
            return int(flag.SPACE)
        if code_point in BIDI_CONTROLS:
            return int(flag.BIDI)
        if code_point in (0x200C, 0x200D):
            return int(flag.JOINER)
        if 0xFE00 <= code_point <= 0xFE0F or 0xE0100 <= code_point <= 0xE01EF:
            return int(flag.SELECTOR)
        if 0xE0020 <= code_point <= 0xE007F:
            return int(flag.TAG)
        if icu.has(code_point, DEFAULT_IGNORABLE) or category in (CONTROL_TYPE, FORMAT_TYPE):
            return int(flag.INVISIBLE)
        flags = 0
        if category in MARK_TYPES:
            flags |= flag.COMBINING
            if unicodedata.category(chr(code_point)) in ("Mn", "Me") and self._is_diacritic(
                code_point
            ):
                flags |= flag.MARK
        if icu.integer(code_point, NFKC_QUICK_CHECK) == MAYBE:
            flags |= flag.COMPOSES
        if icu.has(code_point, EXTENDED_PICTOGRAPHIC) or 0x1F1E6 <= code_point <= 0x1F1FF:
            flags |= flag.PICTURE
        if chr(code_point) in SPLITTERS:
            flags |= flag.SPLITTER
        if chr(code_point) in FOREIGN_SPLITTERS:
            flags |= flag.FOREIGN_SPLITTER
        return int(flags)

    @staticmethod
    def _is_diacritic(code_point: int) -> bool:
        blocks = (
            (0x300, 0x370),
            (0x483, 0x48A),
            (0x1AB0, 0x1B00),
            (0x1DC0, 0x1E00),
            (0x20D0, 0x2100),
            (0xFE20, 0xFE30),
        )
        return any(first <= code_point < last for first, last in blocks)

    def _shared_flags(self, code_point: int) -> int:
        """What a character is after folding."""
        flag, script = self.flag, self.icu.script(code_point)
        flags = 0
        if script in JOINER_SCRIPTS:
            flags |= flag.USES_JOINERS
        if self.icu.category(code_point) in LETTER_TYPES:
            flags |= flag.LETTER
            flags |= {"Latn": flag.LATIN, "Cyrl": flag.CYRILLIC, "Grek": flag.GREEK}.get(script, 0)
            if script in CJK_SCRIPTS:
                flags |= flag.CJK
            if script in HISTORIC_SCRIPTS:
                flags |= flag.HISTORIC
        if 48 <= code_point < 58:
            flags |= flag.DIGIT
        if chr(code_point) in LEET:
            flags |= flag.LEET
        return int(flags)

    def add_twin(self, code_point: int) -> None:
        """Note the ASCII letter that a letter of another script is drawn like."""
        flag = self.flag
        is_letter = self.flags[code_point] & (flag.LETTER | flag.COMBINING)
        if not is_letter or self.flags[code_point] & (flag.CJK | flag.USES_JOINERS):
            return
        if self.fold[code_point] < 128:
            return
        skeleton = self.icu.skeleton(chr(code_point))
        if len(skeleton) == 1 and skeleton.isascii() and skeleton.isalpha():
            self.twin[code_point] = ord(self._in_case_of(code_point, skeleton))
        elif wide := self._wide(code_point, skeleton):
            self.wide[code_point] = ord(wide)
        if self.twin[code_point] and not self.flags[code_point] & (
            flag.LATIN | flag.CYRILLIC | flag.GREEK
        ):
            self.flags[code_point] |= flag.OTHER_ALPHABET

    def _wide(self, code_point: int, skeleton: str) -> str:
        lower = chr(self.icu.lower(code_point))
        if lower in WIDE_LOOK_ALIKES:
            letter = WIDE_LOOK_ALIKES[lower]
            return letter if ord(lower) == code_point else letter.upper()
        if len(skeleton) == 1 and ord(skeleton) in self.styled:
            return chr(self.styled[ord(skeleton)])
        return WIDE_LOOK_ALIKES.get(skeleton, "")

    def _in_case_of(self, code_point: int, letter: str) -> str:
        # The skeleton of a capital I is a small l: right for comparing, wrong to read.
        if letter == "l" and self.icu.lower(code_point) != code_point:
            return "I"
        return letter


def make_table(icu: Icu) -> dict[str, Any]:
    """The arrays that `normalizer.CharacterTable` reads."""
    maker = TableMaker(icu, load_normalizer())
    for code_point in range(CODE_POINTS):
        if code_point not in SURROGATES:
            maker.add(code_point)
    for code_point in range(0x80, 0x20000):
        if code_point not in SURROGATES:
            maker.add_twin(code_point)
    return {
        "unicode_version": np.array(icu.unicode_version()),
        "fold_shift": maker.fold - np.arange(CODE_POINTS, dtype=np.uint32),
        "id_shift": maker.ids - np.arange(CODE_POINTS, dtype=np.uint32),
        "flags": maker.flags,
        "twin": maker.twin,
        "wide": maker.wide,
        "expanding": np.array(sorted(maker.expansions), dtype=np.uint32),
        "expansions": np.array([maker.expansions[c] for c in sorted(maker.expansions)]),
    }


def write_table(path: Path) -> str:
    """Write the table, return the Unicode version it holds."""
    table = make_table(Icu())
    np.savez_compressed(path, **table)
    return str(table["unicode_version"])


if __name__ == "__main__":
    target = TOKENIZER_DIR / "characters.npz"
    sys.stdout.write(f"{target.name}: Unicode {write_table(target)}\n")
