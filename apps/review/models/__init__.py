"""Everything review keeps, a module for each part of it."""

from apps.review.models.appeals import Appeal, AppealState
from apps.review.models.queue import (
    Cause,
    Decision,
    QueueTally,
    ReviewItem,
    ReviewState,
    Skip,
)
from apps.review.models.reports import Report, ReportReason

__all__ = [
    "Appeal",
    "AppealState",
    "Cause",
    "Decision",
    "QueueTally",
    "Report",
    "ReportReason",
    "ReviewItem",
    "ReviewState",
    "Skip",
]
