"""Sentences about decisions and refusals, the same in pages and answers."""

from __future__ import annotations

from django.utils import timezone
from django.utils.formats import localize
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.policies.models import Action
from apps.review.errors import (
    AlreadyDecidedError,
    ItemWithdrawnError,
    LeaseLostError,
    NoReasonError,
    NoSuchMessageError,
    NotCheckableError,
    NothingToAppealError,
    OwnDecisionError,
    ReviewError,
    StaleItemError,
    TooManyError,
    UnderAppealError,
    UndoExpiredError,
)
from apps.review.models import CheckAnswer, Decision


def told(decision: Decision | CheckAnswer) -> str:
    """What was decided, in a word or two."""
    words = {
        Action.ALLOW: _("Allowed"),
        Action.HOLD: _("Kept held"),
        Action.REMOVE: _("Removed"),
    }
    count = decision_count(decision)
    many = f" ×{localize(count)}" if count > 1 else ""
    return f"{words[Action(decision.action)]}: {decision.get_label_display()}{many}"


def decision_count(decision: Decision | CheckAnswer) -> int:
    """How many messages were decided with it, in one go."""
    joint = getattr(decision, "joint", None)
    return 1 if joint is None else joint.decisions.count()


def by_whom(decision: Decision | CheckAnswer) -> str:
    """Who decided what, and how long ago."""
    seconds = max(int((timezone.now() - decision.decided_at).total_seconds()), 0)
    words = {
        Action.ALLOW: _("%(name)s allowed it"),
        Action.HOLD: _("%(name)s kept it held"),
        Action.REMOVE: _("%(name)s removed it"),
    }
    who = words[Action(decision.action)] % {"name": decision.moderator.get_username()}
    if seconds < 60:
        age = ngettext("%(n)s second ago", "%(n)s seconds ago", seconds) % {"n": seconds}
    else:
        minutes = seconds // 60
        age = ngettext("%(n)s minute ago", "%(n)s minutes ago", minutes) % {"n": minutes}
    return f"{who}, {age}."


def refusal(error: ReviewError) -> tuple[str, str]:
    """A headline and a sentence about why nothing was changed."""
    if isinstance(error, AlreadyDecidedError):
        return _("Already decided"), by_whom(error.decision)
    if isinstance(error, LeaseLostError):
        if error.holder is None:
            return _("Your lease has ended"), _("The message is back in the queue.")
        name = error.holder.get_username()
        return _("Somebody else has it"), _("%(name)s opened it.") % {"name": name}
    if isinstance(error, ItemWithdrawnError):
        return _("Nothing to decide any more"), _("The message was deleted or replaced.")
    if isinstance(error, StaleItemError):
        return _("The verdict has changed"), _("Look at it again before you decide.")
    if isinstance(error, OwnDecisionError):
        return _("Not yours to decide"), _("It is about a decision of your own.")
    if isinstance(error, NotCheckableError):
        return _("Not now"), _("The decision does not stand, or may still be taken back.")
    if isinstance(error, NoReasonError):
        return _("Write a reason first"), _("It goes back to whoever appealed.")
    if isinstance(error, UnderAppealError):
        return _("It is appealed"), _("Deciding the appeal is the one way to change it.")
    if isinstance(error, NothingToAppealError):
        return _("Nothing to appeal"), _("No decision or removal stands that could be appealed.")
    if isinstance(error, NoSuchMessageError):
        return _("Nothing to decide any more"), _("The message was deleted or replaced.")
    if isinstance(error, TooManyError):
        return _("Too many at once"), _("At most %(n)s in one go.") % {"n": error.most}
    if isinstance(error, UndoExpiredError):
        return _("Too late to take back"), _("The decision has been sent on.")
    raise error
