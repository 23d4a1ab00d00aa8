"""A child's output on disk, in files of bounded size."""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 5 * 1024 * 1024
KEPT_FILES = 3


class RotatingLog:
    """Appends bytes to `path`, moving it to `path.1`, `path.2`… as it fills."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT_FILES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._file = path.open("ab", buffering=0)
        self._size = self._file.tell()

    def write(self, data: bytes) -> None:
        if self._size + len(data) > self._max_bytes and self._size > 0:
            self._rotate()
        self._file.write(data)
        self._size += len(data)

    def close(self) -> None:
        self._file.close()

    def tail(self) -> list[str]:
        """The last lines that are not blank."""
        with self.path.open("rb") as file:
            file.seek(max(0, self._size - 8192))
            text = file.read().decode(errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()]

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._kept - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = (
                self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            )
            if newer.exists():
                newer.replace(older)
        self._file = self.path.open("wb", buffering=0)
        self._size = 0
