"""What the review page sends."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from apps.policies.models import Action, Label
from apps.review.conversation import CONTEXT_MOST
from apps.review.models import Cause, Decision, Language, Reason, SavedView
from apps.review.models.appeals import APPEAL_MOST_CHARS
from apps.review.models.wellbeing import BREAK_AFTER_MIN, BREAK_AFTER_SEVERE
from apps.review.queue import QueueFilters
from apps.review.services.decisions import Choice
from apps.review.services.wellbeing import Care

NOTE_CHARS = Decision._meta.get_field("note").max_length


class LeaseForm(forms.Form):
    token = forms.UUIDField()


class VersionForm(LeaseForm):
    version = forms.IntegerField(min_value=1)


class DecisionForm(VersionForm):
    """`label` is what the person chose; without it `suggested` stands, and allowed means ok.

    The action `strike` is a removal that strikes the sender.
    """

    action = forms.ChoiceField(choices=[*Action.choices, ("strike", "")])
    label = forms.ChoiceField(choices=Label.choices, required=False)
    suggested = forms.ChoiceField(choices=Label.choices, required=False)
    reason = forms.ChoiceField(choices=Reason.choices, required=False)
    note = forms.CharField(max_length=NOTE_CHARS, required=False)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("action") == Action.ALLOW:
            data["label"] = data.get("label") or Label.OK
        else:
            data["label"] = data.get("label") or data.get("suggested")
        if "action" in data and not data["label"]:
            self.add_error("label", _("Choose what it is: nothing has judged this message."))
        data["strike"] = data.get("action") == "strike"
        if data["strike"]:
            data["action"] = Action.REMOVE
        return data

    def choice(self) -> Choice:
        data = self.cleaned_data
        reason = Reason(data["reason"]) if data["reason"] else None
        return Choice(Action(data["action"]), Label(data["label"]), data["note"], reason)


class AppealDecisionForm(VersionForm):
    """`action` is what shall stand: the appealed one upholds it. `note` is the reason.

    Whoever removes what was allowed has to say what it is.
    """

    action = forms.ChoiceField(choices=Action.choices)
    label = forms.ChoiceField(choices=Label.choices, required=False)
    suggested = forms.ChoiceField(choices=Label.choices, required=False)
    note = forms.CharField(
        max_length=NOTE_CHARS, error_messages={"required": _("Write a reason first.")}
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        suggested = Label.OK if data.get("action") == Action.ALLOW else data.get("suggested")
        data["label"] = data.get("label") or suggested
        if data.get("action") != Action.ALLOW and data["label"] in (None, "", Label.OK):
            self.add_error("label", _("Choose what it is first."))
        return data

    def choice(self) -> Choice:
        data = self.cleaned_data
        return Choice(Action(data["action"]), Label(data["label"]), data["note"])


class AppealForm(forms.Form):
    """An appeal that reached a moderator by another way."""

    appellant = forms.CharField(max_length=200, required=False)
    text = forms.CharField(max_length=APPEAL_MOST_CHARS)


class SharesForm(forms.Form):
    """How much is checked, in per cent."""

    second = forms.FloatField(min_value=0, max_value=100)
    gold = forms.FloatField(min_value=0, max_value=100)

    @classmethod
    def of(cls, second: float, gold: float) -> SharesForm:
        """With the shares that are set, 0 to 1."""
        return cls({"second": f"{second * 100:g}", "gold": f"{gold * 100:g}"})


class ReversalForm(forms.Form):
    """`choice` is the new decision in one value: `allow:ok`, `remove:spam`."""

    choice = forms.ChoiceField(
        choices=[(f"{a}:{label}", "") for a in Action.values for label in Label.values]
    )
    note = forms.CharField(max_length=NOTE_CHARS, required=False)

    def chosen(self) -> Choice:
        action, label = self.cleaned_data["choice"].split(":")
        return Choice(Action(action), Label(label), self.cleaned_data["note"])


class HistoryForm(forms.Form):
    before = forms.IntegerField(min_value=1, max_value=2**63 - 1, required=False)
    everybody = forms.BooleanField(required=False)


class ViewForm(forms.Form):
    """A name for the part of the queue that the address says."""

    name = forms.CharField(max_length=SavedView._meta.get_field("name").max_length)


class AroundForm(forms.Form):
    """How many messages before and after."""

    each = forms.IntegerField(min_value=1, max_value=CONTEXT_MOST)


class RangeForm(forms.Form):
    """From which score to which. What makes no sense is left out."""

    low = forms.FloatField(min_value=0, max_value=1, required=False)
    high = forms.FloatField(min_value=0, max_value=1, required=False)


class RangeDecisionForm(forms.Form):
    """Items as they were shown, `id:version` each, and one choice for all."""

    token = forms.UUIDField()
    choice = forms.RegexField(r"^(allow|remove|hold):(ok|spam|toxic|ad)$")
    confirmed = forms.BooleanField(required=False)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        shown = self.data.getlist("item") if isinstance(self.data, QueryDict) else []
        found = [re.fullmatch(r"(\d{1,18}):(\d{1,9})", value) for value in shown]
        if not shown or not all(found):
            raise forms.ValidationError(_("Choose at least one message."))
        data["items"] = {int(one[1]): int(one[2]) for one in found if one}
        return data

    def chosen(self) -> list[str]:
        return [f"{pk}:{version}" for pk, version in self.cleaned_data["items"].items()]

    def decided(self) -> Choice:
        action, label = self.cleaned_data["choice"].split(":")
        return Choice(Action(action), Label(label))


class MembersForm(forms.Form):
    """Which members of a wave: from one on, or those that differ most."""

    after = forms.IntegerField(min_value=1, max_value=2**63 - 1, required=False)
    different = forms.BooleanField(required=False)


class BesidesForm(forms.Form):
    """Items that the page has open already."""

    besides = forms.TypedMultipleChoiceField(coerce=int, required=False)

    def __init__(self, data: dict[str, list[str]]) -> None:
        super().__init__(data)
        field = self.fields["besides"]
        assert isinstance(field, forms.TypedMultipleChoiceField)
        field.choices = [(v, v) for v in data["besides"] if v.isascii() and len(v) < 19]


# A break is offered after so much; 0 is never.
BREAK_MINUTES = (0, 25, BREAK_AFTER_MIN, 90)
BREAK_SEVERE = (0, 20, BREAK_AFTER_SEVERE, 80)


class CareForm(forms.Form):
    """What somebody wants to be spared. A break that isn't said is as at first."""

    is_gray = forms.BooleanField(required=False)
    holds_to_reveal = forms.BooleanField(required=False)
    break_after_min = forms.TypedChoiceField(
        choices=[(n, n) for n in BREAK_MINUTES],
        coerce=int,
        required=False,
        empty_value=None,
    )
    break_after_severe = forms.TypedChoiceField(
        choices=[(n, n) for n in BREAK_SEVERE],
        coerce=int,
        required=False,
        empty_value=None,
    )

    def care(self) -> Care:
        # Names that there aren't are left out where it is saved.
        blurred = self.data.getlist("blurred") if isinstance(self.data, QueryDict) else []
        data = self.cleaned_data
        minutes, severe = data["break_after_min"], data["break_after_severe"]
        return Care(
            blurred=blurred,
            is_gray=data["is_gray"],
            holds_to_reveal=data["holds_to_reveal"],
            break_after_min=BREAK_AFTER_MIN if minutes is None else minutes,
            break_after_severe=BREAK_AFTER_SEVERE if severe is None else severe,
        )


class ItemsForm(forms.Form):
    """Items that a page shows, up to MOST."""

    MOST = 1_000
    item = forms.TypedMultipleChoiceField(coerce=int)

    def __init__(self, data: dict[str, list[str]]) -> None:
        super().__init__(data)
        field = self.fields["item"]
        assert isinstance(field, forms.TypedMultipleChoiceField)
        known = [v for v in data["item"][: self.MOST] if v.isascii() and v.isdigit()]
        field.choices = [(v, v) for v in known if len(v) < 19]


class FilterForm(forms.Form):
    """The part of the queue, from the address. What makes no sense is left out."""

    label = forms.ChoiceField(choices=Label.choices, required=False)
    cause = forms.ChoiceField(choices=Cause.choices, required=False)
    group = forms.IntegerField(min_value=1, max_value=2**63 - 1, required=False)
    lang = forms.ChoiceField(choices=Language.choices, required=False)
    q = forms.CharField(max_length=200, required=False)


def filters_of(query: QueryDict) -> QueueFilters:
    form = FilterForm(query)
    form.is_valid()
    data = form.cleaned_data
    return QueueFilters(
        label=Label(data["label"]) if data.get("label") else None,
        cause=Cause(data["cause"]) if data.get("cause") else None,
        group_id=data.get("group"),
        language=Language(data["lang"]) if data.get("lang") else None,
        text=data.get("q", ""),
    )
