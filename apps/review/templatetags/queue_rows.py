"""The rows of the queue. A template's loop over fifty took half of the page's time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.core.templatetags.ages import since
from apps.core.templatetags.figures import count
from apps.core.templatetags.frame import initials
from apps.core.templatetags.hostile import marked_line
from apps.policies.models import Label
from apps.review.models.wellbeing import UNDETERMINED
from apps.review.queue_page import QueueRow
from apps.review.wave_facts import WaveFacts

register = template.Library()

_ROW = (
    '<a class="queue-row" href="{url}" data-item="{id}"{veiled}{leased}>'
    '<span class="prio" data-p="{level}"><span class="sr">{priority} </span>P{level}</span>'
    '<bdi class="text" data-lines="1">{text}</bdi><span class="age">{age}</span>'
    '<span class="meta">{chip}<bdi class="clip">{group}</bdi>{wave}{reports}</span>'
    '<span class="lease">{lease}</span></a>\n'
)


@register.simple_tag
def queue_rows(rows: Iterable[QueueRow], blurred: Collection[str], user_id: int) -> SafeString:
    """A link for each row, as `review-desk.js` and the style sheet know it."""
    item_url = reverse("review:item", args=[0])
    chips: dict[Label | None, SafeString] = {label: _chip(label) for label in (*Label, None)}
    draw = partial(
        format_html,
        _ROW,
        priority=_("Priority"),
    )
    return SafeString(
        "".join(
            draw(
                url=item_url.replace("/0/", f"/{row.item_id}/"),
                id=row.item_id,
                veiled=SafeString(" data-veiled" if (row.label or UNDETERMINED) in blurred else ""),
                leased=SafeString(" data-leased" if row.holder else ""),
                level=row.level,
                text=marked_line(row.text),
                age=since(row.opened_at),
                chip=chips[row.label],
                group=marked_line(row.group),
                wave=_wave(row.wave) if row.wave else "",
                reports=_reports(row.reports) if row.reports else "",
                lease=_lease(row, user_id),
            )
            for row in rows
        )
    )


def _chip(label: Label | None) -> SafeString:
    if label is None:
        return format_html('<span class="chip">{}</span>', _("undetermined"))
    return format_html('<span class="chip" data-label="{}">{}</span>', label.value, label.label)


def _wave(wave: WaveFacts) -> SafeString:
    groups = ngettext("in %(n)s group", "in %(n)s groups", wave.groups) % {"n": wave.groups}
    return format_html(
        '<span class="small wave-size" data-wave><b class="num">×{}</b> {}</span>',
        count(wave.size),
        groups,
    )


def _reports(number: int) -> SafeString:
    said = ngettext("%(n)s report", "%(n)s reports", number) % {"n": number}
    return format_html('<span class="small reported">{}</span>', said)


def _lease(row: QueueRow, user_id: int) -> SafeString | str:
    if row.holder is None:
        return _("for leads") if row.is_escalated else ""
    name = _("you")
    if row.holder.id != user_id:
        name = format_html('<bdi class="clip">{}</bdi>', row.holder.name)
    return format_html(
        '<span class="avatar" data-size="sm" aria-hidden="true">{}</span>{}',
        initials(row.holder.name),
        name,
    )
