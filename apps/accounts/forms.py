"""What people type to sign in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, pgettext_lazy

from apps.accounts import throttle
from apps.accounts.models import User

PASSWORD_MAX_LENGTH = 4096  # hashing time grows with it; nobody types more


class SignInForm(AuthenticationForm):
    """Django's form, throttled by name and address, with the product's own words."""

    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=PASSWORD_MAX_LENGTH,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    error_messages = {
        "invalid_login": _("Name or password is wrong. Both are case-sensitive."),
        "inactive": _("Name or password is wrong. Both are case-sensitive."),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = pgettext_lazy("sign-in", "Name")
        for name, field in self.fields.items():
            field.widget.attrs["class"] = "input"
            if self.is_bound and name in self.errors:
                field.widget.attrs.update(
                    {"aria-invalid": "true", "aria-describedby": f"{name}-error"}
                )

    def clean(self) -> dict[str, Any]:
        """Sign in, unless too many tries failed; this one counts until it succeeds."""
        username = self.cleaned_data.get("username")
        if username is None or self.cleaned_data.get("password") is None:
            return self.cleaned_data  # a field is at fault and says so itself
        address = throttle.address_of(self.request) if self.request else ""
        begun = throttle.begin_try(username=username, address=address)
        wait_s = throttle.seconds_to_wait(begun)
        if wait_s:
            raise self._throttled(wait_s)
        cleaned = super().clean()
        throttle.forget_failures(begun)
        return cleaned

    @staticmethod
    def _throttled(wait_s: int) -> ValidationError:
        minutes = -(-wait_s // 60)
        message = ngettext(
            "Too many failed tries. Try again in %(minutes)d minute.",
            "Too many failed tries. Try again in %(minutes)d minutes.",
            minutes,
        )
        return ValidationError(message, code="throttled", params={"minutes": minutes})

    def get_user(self) -> User:
        return super().get_user()
