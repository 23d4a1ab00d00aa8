"""What the address of the operator's page may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from apps.dashboard.feed import UNDETERMINED
from apps.policies.models import Action, Label


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Empty strings ask for all."""

    label: str
    action: str
    form: FeedFilterForm

    @classmethod
    def of(cls, query: QueryDict) -> FeedFilter:
        """What the query asks for; what it can't mean is left aside, and the form says so."""
        form = FeedFilterForm(query)
        form.is_valid()
        chosen = form.cleaned_data
        return cls(chosen.get("label", ""), chosen.get("action", ""), form)


class FeedFilterForm(forms.Form):
    label = forms.ChoiceField(
        label=_("Label"),
        required=False,
        widget=forms.Select(attrs={"class": "input"}),
        choices=[("", _("All labels")), *Label.choices, (UNDETERMINED, _("undetermined"))],
    )
    action = forms.ChoiceField(
        label=_("Action"),
        required=False,
        widget=forms.Select(attrs={"class": "input"}),
        choices=[("", _("All actions")), *Action.choices],
    )
