"""Why a policy can't be changed so."""

from __future__ import annotations

from apps.policies.models import Label, PolicyVersion


class PolicyError(Exception):
    """Nothing was changed."""


class VersionConflictError(PolicyError):
    """Somebody published meanwhile; `newest` is what stands now."""

    def __init__(self, newest: PolicyVersion) -> None:
        super().__init__(f"version {newest.number} stands")
        self.newest = newest


class ThresholdError(PolicyError):
    """The limits of `label` are missing, out of range or out of order."""

    def __init__(self, label: Label) -> None:
        super().__init__(str(label))
        self.label = label


class RuleError(PolicyError):
    """The entry at `index` of those to be added can't be used, or there are too many."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"entry {index}: {reason}")
        self.index = index


class NameTakenError(PolicyError):
    """Another policy has that name."""
