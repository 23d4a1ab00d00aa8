"""Everything review keeps, a module for each part of it."""

from apps.review.models.appeals import Appeal, AppealState
from apps.review.models.checks import (
    Check,
    CheckAnswer,
    CheckKind,
    CheckOutcome,
    CheckSettings,
    Gold,
)
from apps.review.models.desk import KeyMap, SavedView
from apps.review.models.pace import QueueFlow, QueueSample
from apps.review.models.queue import (
    Cause,
    Decision,
    Language,
    QueueTally,
    Reason,
    ReviewItem,
    ReviewState,
    Skip,
)
from apps.review.models.reports import Report, ReportReason
from apps.review.models.strikes import Strike
from apps.review.models.waves import JointDecision, JointKind, Wave, WaveBand
from apps.review.models.wellbeing import Exposure, Wellbeing

__all__ = [
    "Appeal",
    "AppealState",
    "Cause",
    "Check",
    "CheckAnswer",
    "CheckKind",
    "CheckOutcome",
    "CheckSettings",
    "Decision",
    "Exposure",
    "Gold",
    "JointDecision",
    "JointKind",
    "KeyMap",
    "Language",
    "QueueFlow",
    "QueueSample",
    "QueueTally",
    "Reason",
    "Report",
    "ReportReason",
    "ReviewItem",
    "ReviewState",
    "SavedView",
    "Skip",
    "Strike",
    "Wave",
    "WaveBand",
    "Wellbeing",
]
