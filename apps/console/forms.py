"""What the admins' pages send."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import ApiKey
from apps.policies.judging import Limits
from apps.policies.models import Label, Policy, PolicyVersion
from apps.policies.services import TUNED

NOTE_CHARS = PolicyVersion._meta.get_field("note").max_length
NAME_CHARS = Policy._meta.get_field("name").max_length


class PublishForm(forms.Form):
    """Thresholds of each label as `<label>_hold` and `<label>_remove`, 0 to 1."""

    based_on = forms.IntegerField(min_value=1, max_value=2**31 - 1)
    note = forms.CharField(max_length=NOTE_CHARS, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for label in TUNED:
            for limit in ("hold", "remove"):
                self.fields[f"{label}_{limit}"] = forms.FloatField(min_value=0, max_value=1)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for label in TUNED:
            hold, remove = data.get(f"{label}_hold"), data.get(f"{label}_remove")
            if hold is not None and remove is not None and hold > remove:
                self.add_error(f"{label}_remove", _("Remove must not be below hold."))
        return data

    def limits(self) -> dict[Label, Limits]:
        data = self.cleaned_data
        return {label: Limits(data[f"{label}_hold"], data[f"{label}_remove"]) for label in TUNED}


class NewPolicyForm(forms.Form):
    name = forms.CharField(max_length=NAME_CHARS, label=_("Name"))
    like = forms.IntegerField(min_value=1, max_value=2**63 - 1)


class AssignForm(forms.Form):
    """A group by the id its backend gave it."""

    group = forms.CharField(max_length=200)


class NewKeyForm(forms.Form):
    name = forms.CharField(
        max_length=ApiKey._meta.get_field("name").max_length,
        label=_("Name"),
        help_text=_("Which backend uses it."),
    )
    expires_on = forms.DateField(
        required=False,
        label=_("Last day"),
        help_text=_("Empty: until it is revoked."),
        widget=forms.DateInput(attrs={"type": "date"}),
    )

    def clean_expires_on(self) -> datetime | None:
        """The end of the chosen day."""
        day = self.cleaned_data["expires_on"]
        if day is None:
            return None
        if day < timezone.localdate():
            raise forms.ValidationError(_("That day is over."))
        last = datetime(day.year, day.month, day.day, 23, 59, 59)  # noqa: DTZ001  (made aware next)
        return timezone.make_aware(last)


class AuditFilterForm(forms.Form):
    before = forms.IntegerField(min_value=1, max_value=2**63 - 1, required=False)
    action = forms.CharField(max_length=64, required=False)
    actor = forms.CharField(max_length=150, required=False)
