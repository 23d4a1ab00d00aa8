"""What this process has already seen stored, so that it need not be asked for or written again.

Only a hint: the statements that use it join the real rows, so a name that is remembered but gone
costs a second try and never a wrong row.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock


class RecentNames:
    """The display name last stored for each external id, least recently used first out."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._names: OrderedDict[str, str] = OrderedDict()
        self._lock = Lock()

    def unknown(self, wanted: dict[str, str]) -> dict[str, str]:
        """Those of `wanted` (name by external id) that still have to be written.

        An empty name asks for nothing but that the row exists.
        """
        missing = {}
        with self._lock:
            for external_id, name in wanted.items():
                known = self._names.get(external_id)
                if known is None or (name and name != known):
                    missing[external_id] = name
                else:
                    self._names.move_to_end(external_id)
        return missing

    def remember(self, names: dict[str, str]) -> None:
        """Call once the transaction that wrote `names` has committed."""
        with self._lock:
            for external_id, name in names.items():
                self._names[external_id] = name or self._names.get(external_id, "")
                self._names.move_to_end(external_id)
            while len(self._names) > self._capacity:
                self._names.popitem(last=False)

    def forget(self, external_ids: set[str]) -> None:
        with self._lock:
            for external_id in external_ids:
                self._names.pop(external_id, None)

    def __len__(self) -> int:
        return len(self._names)
