"""What the page of actions sends."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.scoring.controls import (
    BATCH_BOUNDS,
    IN_FLIGHT_BOUNDS,
    BreakerWish,
    Claiming,
    Judging,
    Standing,
)
from apps.scoring.models import ModelWish


class ReplicaForm(forms.Form):
    target = forms.CharField(max_length=100)
    wish = forms.ChoiceField(choices=[(each.value, each.value) for each in Standing])


class BreakerForm(forms.Form):
    target = forms.CharField(max_length=100)
    wish = forms.ChoiceField(choices=[(each.value, each.value) for each in BreakerWish])


class ModelForm(forms.Form):
    target = forms.CharField(max_length=100)
    wish = forms.ChoiceField(choices=ModelWish)


class ClaimingForm(forms.Form):
    wish = forms.ChoiceField(choices=[(each.value, each.value) for each in Claiming])


class JudgingForm(forms.Form):
    wish = forms.ChoiceField(choices=[(each.value, each.value) for each in Judging])


class LimitsForm(forms.Form):
    largest_batch = forms.IntegerField(
        label=_("Largest batch"),
        help_text=_("Messages a worker claims at once"),
        min_value=BATCH_BOUNDS[0],
        max_value=BATCH_BOUNDS[1],
    )
    most_in_flight_batches = forms.IntegerField(
        label=_("Batches in flight"),
        help_text=_("Of each worker, at the same time"),
        min_value=IN_FLIGHT_BOUNDS[0],
        max_value=IN_FLIGHT_BOUNDS[1],
    )
