"""People and keys: who may do what, and which backend is calling."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Role(models.TextChoices):
    MODERATOR = "moderator", _("Moderator")
    LEAD = "lead", _("Lead moderator")
    OPERATOR = "operator", _("Operator")
    ADMIN = "admin", _("Admin")


class User(AbstractUser):
    """A person who signs in to the console."""

    role = models.CharField(max_length=16, choices=Role, default=Role.MODERATOR)
    language = models.CharField(max_length=8, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="user_role_known")
        ]


class ApiKey(models.Model):
    """A backend's key. Only a digest is kept: the secret is shown once."""

    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True)
    secret_digest = models.BinaryField(max_length=32)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    # Whether it may also erase: more than a leaked key should be able to do.
    may_erase = models.BooleanField(default=False, db_default=False)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class SignInFailure(models.Model):
    """One failed try to sign in; read by `throttle`, gone after its window."""

    name_digest = models.BinaryField(max_length=32)
    address = models.CharField(max_length=45)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        # The tries of one address, newest first.
        indexes = [models.Index(fields=["address", "-at"], name="sign_in_failure_by_address")]
