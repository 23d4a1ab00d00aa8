"""What somebody wants to be spared until they ask for it, and what they had to look at."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.policies.models import Label

# Who never chose: abuse is blurred, the rest is not.
BLURRED_AT_FIRST = (Label.TOXIC.value,)
# In the place of a label, for what nothing has judged.
UNDETERMINED = "undetermined"
BREAK_AFTER_MIN = 50
BREAK_AFTER_SEVERE = 40


def blurred_at_first() -> list[str]:
    return list(BLURRED_AT_FIRST)


class Wellbeing(models.Model):
    """One person's choice. `blurred` holds labels, and UNDETERMINED. Zero means never."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="+"
    )
    blurred = ArrayField(models.CharField(max_length=16), default=blurred_at_first)
    is_gray = models.BooleanField(default=False, db_default=False)
    # Shown only as long as the key is down; else the key shows and blurs in turn.
    holds_to_reveal = models.BooleanField(default=False, db_default=False)
    break_after_min = models.PositiveSmallIntegerField(
        default=BREAK_AFTER_MIN, db_default=BREAK_AFTER_MIN
    )
    break_after_severe = models.PositiveSmallIntegerField(
        default=BREAK_AFTER_SEVERE, db_default=BREAK_AFTER_SEVERE
    )
    # No reminder before then.
    put_off_until = models.DateTimeField(null=True, blank=True)


class Exposure(models.Model):
    """A message that somebody had before them on a day, once however often it was shown.

    A row each and no counter, so that two tabs, a page that is loaded again or a request that is
    sent twice count once. `is_severe` says that they saw the text of something severe.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    day = models.DateField()
    # No foreign key: what somebody saw was seen, also when the message is gone.
    message_id = models.BigIntegerField()
    seen_at = models.DateTimeField()
    is_severe = models.BooleanField()

    class Meta:
        constraints = [
            # Also finds what a person saw on a day.
            models.UniqueConstraint(
                fields=["person", "day", "message_id"], name="exposure_once_a_day"
            )
        ]
        # The team's sums, and forgetting old days.
        indexes = [models.Index(fields=["day"], name="exposure_by_day")]
