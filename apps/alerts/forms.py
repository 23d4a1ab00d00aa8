"""What the alerts page sends."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.alerts.figures import DEFAULTS, Figure
from apps.alerts.models import LARGEST, LONGEST_S, AlertRule
from apps.alerts.services import SILENCES_MIN


class RuleForm(forms.Form):
    is_on = forms.BooleanField(label=_("Look at it"), required=False)
    limit = forms.FloatField(label=_("Limit"), min_value=0, max_value=LARGEST)
    clear_at = forms.FloatField(label=_("Over at"), min_value=0, max_value=LARGEST)
    for_s = forms.IntegerField(label=_("Lasting, s"), min_value=0, max_value=LONGEST_S)
    clear_for_s = forms.IntegerField(label=_("Back for, s"), min_value=0, max_value=LONGEST_S)

    def __init__(self, rule: AlertRule, data: Any = None) -> None:
        names = ("is_on", "limit", "clear_at", "for_s", "clear_for_s")
        super().__init__(
            data,
            initial={name: getattr(rule, name) for name in names},
            auto_id=f"{rule.figure}-%s",
        )
        self.is_below = DEFAULTS[Figure(rule.figure)].is_below

    def numbers(self) -> list[forms.BoundField]:
        return [self[name] for name in ("limit", "clear_at", "for_s", "clear_for_s")]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        limit, clear_at = data.get("limit"), data.get("clear_at")
        if limit is None or clear_at is None:
            return data
        if self.is_below and clear_at < limit:
            self.add_error("clear_at", _("Must not be below the limit."))
        if not self.is_below and clear_at > limit:
            self.add_error("clear_at", _("Must not be above the limit."))
        return data


class SilenceForm(forms.Form):
    minutes = forms.TypedChoiceField(
        coerce=int, choices=[(each, str(each)) for each in (0, *SILENCES_MIN)]
    )
