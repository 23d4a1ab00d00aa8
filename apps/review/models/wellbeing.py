"""What somebody wants to be spared until they ask for it."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.policies.models import Label

# Who never chose: abuse is blurred, the rest is not.
BLURRED_AT_FIRST = (Label.TOXIC.value,)
# In the place of a label, for what nothing has judged.
UNDETERMINED = "undetermined"


class Wellbeing(models.Model):
    """One person's choice. `blurred` holds labels, and UNDETERMINED."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="+"
    )
    blurred = ArrayField(models.CharField(max_length=16), default=list)
