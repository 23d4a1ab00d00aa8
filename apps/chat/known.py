"""What this process has already seen stored, so that it need not be asked for or written again.

Only a hint: the statements that use it join the real rows, so a name that is remembered but gone
costs a second try and never a wrong row. And only hashes, which differ from process to process:
a name that is erased in the database must not live on in here.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

_NO_NAME = hash("")


class RecentNames:
    """The display name last stored for each external id, least recently used first out."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._names: OrderedDict[int, int] = OrderedDict()
        self._lock = Lock()

    def unknown(self, wanted: dict[str, str]) -> dict[str, str]:
        """Those of `wanted` (name by external id) that still have to be written.

        An empty name asks for nothing but that the row exists.
        """
        missing = {}
        with self._lock:
            for external_id, name in wanted.items():
                key = hash(external_id)
                known = self._names.get(key)
                if known is None or (name and hash(name) != known):
                    missing[external_id] = name
                else:
                    self._names.move_to_end(key)
        return missing

    def remember(self, names: dict[str, str]) -> None:
        """Call once the transaction that wrote `names` has committed."""
        with self._lock:
            for external_id, name in names.items():
                key = hash(external_id)
                self._names[key] = hash(name) if name else self._names.get(key, _NO_NAME)
                self._names.move_to_end(key)
            while len(self._names) > self._capacity:
                self._names.popitem(last=False)

    def __len__(self) -> int:
        return len(self._names)
