"""Why the review queue refuses a write. Each says who or what stood in the way."""

from __future__ import annotations

from apps.accounts.models import User
from apps.review.models import CheckAnswer, Decision


class ReviewError(Exception):
    """The write changed nothing."""


class NoSuchMessageError(ReviewError):
    """There is no such message, or it was deleted (`is_deleted`)."""

    def __init__(self, *, is_deleted: bool = False) -> None:
        super().__init__("deleted" if is_deleted else "unknown")
        self.is_deleted = is_deleted


class NothingToAppealError(ReviewError):
    """Nothing stands that could be appealed: no removal, no decision, or a person looks anyway."""


class UnderAppealError(ReviewError):
    """The decision is appealed: deciding the appeal is the one way to change it."""


class OwnDecisionError(ReviewError):
    """The appeal is against the user's own decision."""


class NoReasonError(ReviewError):
    """An appeal is decided with a reason."""


class NotCheckableError(ReviewError):
    """The decision does not stand, may still be taken back, or there is nothing to settle."""


class AlreadyDecidedError(ReviewError):
    """Somebody was first; `decision` is the one that stands."""

    def __init__(self, decision: Decision | CheckAnswer) -> None:
        super().__init__(f"decided by {decision.moderator_id}")
        self.decision = decision


class ItemWithdrawnError(ReviewError):
    """The message was deleted, replaced or judged anew."""


class LeaseLostError(ReviewError):
    """The lease is not (or no longer) the caller's; `holder` has it, if anybody."""

    def __init__(self, holder: User | None) -> None:
        super().__init__(f"held by {holder.pk if holder else None}")
        self.holder = holder


class StaleItemError(ReviewError):
    """The item changed since it was shown; `version` is the present one."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version is {version}")
        self.version = version


class UndoExpiredError(ReviewError):
    """The grace time is over, or the decision has been told to the outside."""


class TooManyError(ReviewError):
    """More items at once than may be decided without looking twice; `most` is how many may."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most}")
        self.most = most
