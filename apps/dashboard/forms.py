"""What the address of the operator's page may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from apps.dashboard.feed import SOURCE_WORDS, UNDETERMINED
from apps.policies.models import Action, Label


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Empty strings ask for all."""

    label: str
    action: str
    source: str
    group: str
    form: FeedFilterForm

    @classmethod
    def of(cls, query: QueryDict) -> FeedFilter:
        """What the query asks for; what it can't mean is left aside, and the form says so."""
        form = FeedFilterForm(query)
        form.is_valid()
        chosen = form.cleaned_data
        label, action, source, group = (
            chosen.get(name, "") for name in ("label", "action", "source", "group")
        )
        return cls(label, action, source, group, form)


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
    source = forms.ChoiceField(
        label=_("Source"),
        required=False,
        widget=forms.Select(attrs={"class": "input"}),
        choices=[("", _("All sources")), *SOURCE_WORDS.items()],
    )
    group = forms.CharField(
        label=_("Group"),
        required=False,
        max_length=200,
        widget=forms.TextInput(
            attrs={"class": "input", "placeholder": _("Group's key"), "autocomplete": "off"}
        ),
    )


DEFAULT_WINDOW = timedelta(minutes=10)
# No clock is before this: a year-1 instant can't be shifted by a time zone.
_EARLIEST_S, _LATEST_S = 0, 4_102_444_800


class WindowForm(forms.Form):
    """`from` and `to` in Unix seconds. Both may be left out."""

    until_s = forms.IntegerField(required=False, min_value=_EARLIEST_S, max_value=_LATEST_S)
    since_s = forms.IntegerField(required=False, min_value=_EARLIEST_S, max_value=_LATEST_S)

    def __init__(self, query: QueryDict) -> None:
        super().__init__({"since_s": query.get("from"), "until_s": query.get("to")})

    def window(self, *, now: datetime) -> tuple[datetime, datetime]:
        until_s, since_s = self.cleaned_data["until_s"], self.cleaned_data["since_s"]
        until = now if until_s is None else datetime.fromtimestamp(until_s, tz=UTC)
        if since_s is None:
            return until - DEFAULT_WINDOW, until
        return datetime.fromtimestamp(since_s, tz=UTC), until
