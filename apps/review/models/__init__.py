"""Everything review keeps, a module for each part of it."""

from apps.review.models.queue import (
    Cause,
    Decision,
    QueueTally,
    ReviewItem,
    ReviewState,
    Skip,
)

__all__ = ["Cause", "Decision", "QueueTally", "ReviewItem", "ReviewState", "Skip"]
