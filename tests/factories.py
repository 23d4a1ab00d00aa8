"""Rows for tests: each factory makes a valid one, a test names only what it is about."""

from __future__ import annotations

from typing import Any

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from apps.accounts.models import Role, User
from apps.chat.models import Group, Message, Sender
from apps.policies.models import Action, Label, Policy, PolicyVersion, Threshold
from apps.releases.models import Release, ReleaseKind
from apps.review.grams import indexed
from apps.review.models import Cause, ReviewItem
from apps.review.ranking import rank
from apps.scoring.models import Source, Verdict


class UserFactory(DjangoModelFactory[User]):
    class Meta:
        model = User
        skip_postgeneration_save = True

    username = factory.Sequence(lambda n: f"person-{n}")
    role = Role.MODERATOR


class GroupFactory(DjangoModelFactory[Group]):
    class Meta:
        model = Group

    external_id = factory.Sequence(lambda n: f"group-{n}")
    name = factory.Sequence(lambda n: f"Group {n}")


class SenderFactory(DjangoModelFactory[Sender]):
    class Meta:
        model = Sender

    external_id = factory.Sequence(lambda n: f"sender-{n}")
    name = factory.Sequence(lambda n: f"Sender {n}")


class MessageFactory(DjangoModelFactory[Message]):
    class Meta:
        model = Message

    id = factory.Sequence(lambda n: 1_000_000 + n)
    group = factory.SubFactory(GroupFactory)
    sender = factory.SubFactory(SenderFactory)
    external_id = factory.Sequence(lambda n: f"message-{n}")
    text = "Free coins for everyone"


def rules_release() -> Release:
    """What gives verdicts while the model is away, likewise."""
    return Release.objects.get_or_create(
        kind=ReleaseKind.RULES,
        is_active=True,
        defaults={"model_name": "rules", "model_version": "1"},
    )[0]


def active_release() -> Release:
    """The model release that migrations make; again, where a test has emptied the tables."""
    rules_release()
    return Release.objects.get_or_create(
        kind=ReleaseKind.MODEL,
        is_active=True,
        defaults={"model_name": "moderation", "model_version": "1"},
    )[0]


def default_policy_version() -> PolicyVersion:
    """The newest version of the default policy, likewise."""
    policy, _ = Policy.objects.get_or_create(is_default=True, defaults={"name": "Default"})
    newest = policy.versions.order_by("number").last()
    if newest is None:
        newest = PolicyVersion.objects.create(policy=policy, number=1)
        for label, hold, remove in (("spam", 0.5, 0.9), ("toxic", 0.5, 0.9), ("ad", 0.6, 0.95)):
            Threshold.objects.create(version=newest, label=label, hold=hold, remove=remove)
    return newest


class VerdictFactory(DjangoModelFactory[Verdict]):
    class Meta:
        model = Verdict

    message = factory.SubFactory(MessageFactory)
    release = factory.LazyFunction(active_release)
    policy_version = factory.LazyFunction(default_policy_version)
    source = Source.MODEL
    label = Label.SPAM
    acting_label = Label.SPAM
    action = Action.HOLD
    score_ok = 0.2
    score_spam = 0.7
    score_toxic = 0.06
    score_ad = 0.04
    queue_ms = 4.0
    inference_ms = 6.0
    total_ms = 12.0


class ReviewItemFactory(DjangoModelFactory[ReviewItem]):
    """An open item; with `verdict__…` its message's verdict can be told apart."""

    class Meta:
        model = ReviewItem

    class Params:
        verdict = factory.SubFactory(VerdictFactory)

    message = factory.SelfAttribute("verdict.message")
    group = factory.SelfAttribute("message.group")
    cause = Cause.FLAGGED
    label = Label.SPAM
    priority = 0.5

    @classmethod
    def _create(cls, model_class: type[ReviewItem], *args: Any, **kwargs: Any) -> ReviewItem:
        kwargs.setdefault("opened_at", timezone.now())
        kwargs.setdefault("grams", indexed(kwargs["message"].text))
        kwargs.setdefault("rank", rank(kwargs["priority"], kwargs["opened_at"]))
        return super()._create(model_class, *args, **kwargs)


class PolicyFactory(DjangoModelFactory[Policy]):
    class Meta:
        model = Policy

    name = factory.Sequence(lambda n: f"Policy {n}")
