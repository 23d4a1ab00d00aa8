"""Parts of the queue that a person keeps under names of their own."""

from __future__ import annotations

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import Actor, record
from apps.review.models import SavedView
from apps.review.queue import QueueFilters, query_of

# As many as the sidebar shows without becoming a list to search in.
VIEWS_MOST = 20


class TooManyViewsError(Exception):
    """The person has `VIEWS_MOST` views; nothing was saved."""


@transaction.atomic
def save_view(user: User, name: str, filters: QueueFilters) -> SavedView:
    """Keep `filters` under `name`; a view of that name is replaced.

    Raises:
        PermissionDenied: The user may not review.
        TooManyViewsError: There is no room for another name.
    """
    require(user, Permission.REVIEW)
    User.objects.select_for_update().get(pk=user.pk)  # one after the other, so that the limit holds
    theirs = SavedView.objects.filter(person=user)
    if theirs.count() >= VIEWS_MOST and not theirs.filter(name=name).exists():
        raise TooManyViewsError
    view, _ = SavedView.objects.update_or_create(
        person=user, name=name, defaults={"query": query_of(filters)}
    )
    # A search may quote a message, so only what kind of part it is goes into the record.
    kept = {"label": filters.label, "cause": filters.cause, "group": filters.group_id}
    _audit(user, "review.view_saved", view.pk, after={**kept, "language": filters.language})
    return view


@transaction.atomic
def forget_view(user: User, view_id: int) -> bool:
    """Drop one of one's own views; False when it was gone already.

    Raises:
        PermissionDenied: The user may not review.
    """
    require(user, Permission.REVIEW)
    dropped, _ = SavedView.objects.filter(pk=view_id, person=user).delete()
    if dropped:
        _audit(user, "review.view_forgotten", view_id)
    return bool(dropped)


def _audit(user: User, action: str, view_id: int, **state: dict[str, object]) -> None:
    record(
        actor=Actor.of_user(user),
        action=action,
        target_type="saved_view",
        target_id=view_id,
        **state,
    )
