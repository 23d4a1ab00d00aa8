"""What the admins' pages send."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import ApiKey
from apps.core.templatetags.hostile import marked_plain
from apps.policies.judging import Limits
from apps.policies.matching import Fault, PatternError, RuleSpec
from apps.policies.models import Action, Label, Policy, PolicyVersion, RuleKind
from apps.policies.services import MOST_RULES, TUNED, RuleChange, RuleKey

NOTE_CHARS = PolicyVersion._meta.get_field("note").max_length
NAME_CHARS = Policy._meta.get_field("name").max_length


# A text area of entries holds no more than all of them, each as long as may be.
ENTRIES_CHARS = 100_000
# What an entry leads to, as `<label>:<action>`.
OUTCOMES: tuple[tuple[str, str], ...] = (
    *(
        (f"{label}:{action}", f"{label}:{action}")
        for label in TUNED
        for action in (Action.REMOVE, Action.HOLD)
    ),
    (f"{Label.OK}:{Action.ALLOW}", f"{Label.OK}:{Action.ALLOW}"),
)
# When an entry counts.
ALWAYS, AWAY = "always", "away"
WHEN = ((ALWAYS, _("always")), (AWAY, _("only while the model is away")))
FAULT_WORDS = {
    Fault.EMPTY: _("Line %(line)s holds nothing to look for."),
    Fault.TOO_LONG: _("Line %(line)s is longer than 200 characters."),
    Fault.NOT_A_DOMAIN: _("Line %(line)s is not a domain such as shop.example."),
}
TOO_MANY_RULES = _("A policy has at most %(most)s entries.")


class PublishForm(forms.Form):
    """Thresholds of each label as `<label>_hold` and `<label>_remove`, 0 to 1; entries to add, one
    a line, all of one kind and outcome; `drop`, `<kind>:<key>` of each entry to take out.
    """

    based_on = forms.IntegerField(min_value=1, max_value=2**31 - 1)
    note = forms.CharField(max_length=NOTE_CHARS, required=False)
    entries = forms.CharField(max_length=ENTRIES_CHARS, required=False)
    entry_kind = forms.ChoiceField(choices=RuleKind, required=False)
    entry_outcome = forms.ChoiceField(choices=OUTCOMES, required=False)
    entry_when = forms.ChoiceField(choices=WHEN, required=False)

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
        self._check_entries()
        return data

    def _check_entries(self) -> None:
        kind = self.cleaned_data.get("entry_kind") or RuleKind.TERM
        for line, pattern in self._lines():
            try:
                RuleSpec(RuleKind(kind), pattern, Label.OK, Action.ALLOW).key  # noqa: B018
            except PatternError as error:
                self.add_error("entries", FAULT_WORDS[error.fault] % {"line": line})
        data = self.cleaned_data
        allows = data.get("entry_outcome", "").endswith(f":{Action.ALLOW}")
        if data.get("entries") and data.get("entry_when") == AWAY and allows:
            self.add_error("entries", _("Nothing is allowed because the model is away."))

    def _lines(self) -> list[tuple[int, str]]:
        """What was typed, with the number of its line; empty lines are left out."""
        lines = self.cleaned_data.get("entries", "").splitlines()
        return [(at, line.strip()) for at, line in enumerate(lines, 1) if line.strip()]

    def dropped(self) -> set[RuleKey]:
        """The entries that are to go. One that is not there any more is no mistake."""
        values = self.data.getlist("drop") if isinstance(self.data, QueryDict) else []
        pairs = (value.split(":", 1) for value in values if ":" in value)
        return {(RuleKind(kind), key) for kind, key in pairs if kind in RuleKind.values}

    def rules(self) -> RuleChange:
        kind = RuleKind(self.cleaned_data["entry_kind"] or RuleKind.TERM)
        outcome = self.cleaned_data["entry_outcome"] or OUTCOMES[0][0]
        label, action = outcome.split(":")
        only_away = self.cleaned_data["entry_when"] == AWAY
        added = [
            RuleSpec(kind, pattern, Label(label), Action(action), only_away)
            for _line, pattern in self._lines()
        ]
        return RuleChange(added, self.dropped())

    def refuse_more_entries(self) -> None:
        self.add_error("entries", TOO_MANY_RULES % {"most": MOST_RULES})

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

    may_erase = forms.BooleanField(
        required=False,
        label=_("May erase"),
        help_text=_("Messages and senders, with all that was said."),
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


class BeforeForm(forms.Form):
    """A page of a list, newest first."""

    before = forms.IntegerField(min_value=1, max_value=2**63 - 1, required=False)


class AuditFilterForm(BeforeForm):
    action = forms.CharField(max_length=64, required=False)
    actor = forms.CharField(max_length=150, required=False)


class FindSenderForm(forms.Form):
    """A person by the id that the backend gave them: any text, so it is not stripped."""

    sender = forms.CharField(
        max_length=200,
        strip=False,
        label=_("Sender"),
        help_text=_("The chat backend's id of the person."),
    )

    def refuse_unknown(self) -> None:
        self.add_error("sender", _("Nobody with this id has written, reported or appealed."))


class ConfirmErasureForm(forms.Form):
    """The id once more, as it is or as the page shows it: not every character can be typed."""

    typed = forms.CharField(strip=False, max_length=2_000, label=_("Type the id to go on"))

    def __init__(self, external_id: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.external_id = external_id
        self.shown = marked_plain(external_id) or "␣" * len(external_id)

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if typed != self.external_id and typed.strip() != self.shown:
            raise forms.ValidationError(_("This is not the id. Nothing was erased."))
        return typed
