"""What Prometheus reads: never falls, whoever restarts; tells nothing about messages; and the
dashboard and the alerts in `deploy/` ask for figures that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from apps.chat.models import Chunk
from apps.dashboard.metrics import read_scrape, render
from apps.dashboard.models import InflowSample, MetricTotals
from apps.dashboard.totals import SETTLED_AFTER, fold_totals, read_totals
from apps.scoring.models import StageSample
from tests.dashboard.samples import replica, sample, store
from tests.factories import GroupFactory, MessageFactory, SenderFactory

pytestmark = pytest.mark.django_db

DEPLOY = Path(settings.BASE_DIR) / "deploy"
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(now: datetime | None = None) -> Series:
    text = render(read_scrape(now=now or timezone.now())).decode()
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def value(series: Series, name: str, **labels: str) -> float:
    return series[f"chatwarden_{name}", tuple(sorted(labels.items()))]


def verdicts() -> int:
    return read_totals().measured.counts["verdicts"]


# ---------- counters ----------


def test_all_processes_count_together() -> None:
    now = timezone.now()
    store(
        sample(now, "worker-1", verdicts=30, by_label={"spam": 20, "": 10}, total_ms=[3.0] * 30),
        sample(now, "worker-2", verdicts=5, by_label={"spam": 5}, total_ms=[900.0] * 5),
    )
    series = scrape(now)
    assert value(series, "verdicts_total", label="spam") == 25
    assert value(series, "verdicts_total", label="undetermined") == 10
    assert value(series, "verdicts_total", label="toxic") == 0
    assert value(series, "stage_seconds_bucket", stage="total", le="0.005") == 30
    assert value(series, "stage_seconds_bucket", stage="total", le="+Inf") == 35
    assert value(series, "stage_seconds_sum", stage="total") == pytest.approx(4.59)


def test_folding_changes_no_figure() -> None:
    now = timezone.now()
    for age_s in (30, 20, 5):
        at = now - timedelta(seconds=age_s)
        store(sample(at, verdicts=10, by_label={"ok": 10}, total_ms=[age_s] * 10))
        InflowSample.objects.create(second=at.replace(microsecond=0), received=7, high_id=0)
    before = scrape(now)
    fold_totals(now=now)
    row = MetricTotals.objects.get()
    assert (row.received, row.payload["counters"]["verdicts"]) == (14, 20)
    assert scrape(now) == before
    assert value(before, "messages_received_total") == 21


def test_counters_stay_when_samples_go_and_processes_start_anew() -> None:
    start = timezone.now() - timedelta(hours=2)
    store(sample(start, "worker-1", verdicts=100))
    fold_totals(now=start + SETTLED_AFTER + timedelta(seconds=1))
    StageSample.objects.all().delete()
    assert verdicts() == 100
    store(sample(start + timedelta(hours=1), "worker-2", verdicts=1))
    assert verdicts() == 101


def test_folding_twice_or_with_an_older_time_counts_once() -> None:
    now = timezone.now()
    store(sample(now - timedelta(seconds=30), verdicts=10))
    for at in (now, now, now - timedelta(seconds=25)):
        fold_totals(now=at)
    assert verdicts() == 10


def test_a_sample_that_is_not_settled_waits_for_the_next_fold() -> None:
    now = timezone.now()
    store(sample(now - SETTLED_AFTER, verdicts=10))
    fold_totals(now=now)
    assert MetricTotals.objects.get().payload["counters"].get("verdicts", 0) == 0
    assert verdicts() == 10
    fold_totals(now=now + timedelta(seconds=1))
    assert MetricTotals.objects.get().payload["counters"]["verdicts"] == 10


def test_seconds_of_inflow_that_are_written_late_are_counted() -> None:
    now = timezone.now().replace(microsecond=0)
    InflowSample.objects.create(second=now - timedelta(seconds=60), received=1, high_id=0)
    fold_totals(now=now)
    InflowSample.objects.create(second=now - timedelta(seconds=40), received=2, high_id=0)
    assert read_totals().received == 3
    fold_totals(now=now + timedelta(seconds=20))
    assert (MetricTotals.objects.get().received, read_totals().received) == (3, 3)


def test_batches_are_a_histogram() -> None:
    now = timezone.now()
    store(sample(now, verdicts=300, batches=3, batch_sizes={"64": 2, "256": 1}))
    series = scrape(now)
    assert value(series, "batch_messages_bucket", le="64") == 2
    assert value(series, "batch_messages_bucket", le="256") == 3
    assert value(series, "batch_messages_count") == 3
    assert value(series, "batch_messages_sum") == 300


# ---------- gauges ----------


def test_backlog_replicas_breakers_and_workers_are_shown() -> None:
    now = timezone.now()
    Chunk.objects.create(id=1, size=700, created_at=now - timedelta(seconds=9))
    open_one = replica("triton-2", state="down", breaker="open", in_flight=3)
    store(
        sample(now, "worker-1", replicas=[replica(), open_one], in_flight=5, verdicts=1),
        sample(now, "worker-2", replicas=[replica(), replica("triton-2")], paused_because="away"),
        sample(now - timedelta(seconds=8), "worker-3"),
    )
    series = scrape(now)
    assert value(series, "backlog_messages") == 700
    assert value(series, "backlog_oldest_age_seconds") == pytest.approx(9)
    assert value(series, "breaker_state", replica="triton-2", state="open") == 1
    assert value(series, "breaker_state", replica="triton-2", state="closed") == 0
    assert value(series, "breaker_state", replica="triton-1", state="closed") == 1
    assert value(series, "replica_state", replica="triton-2", state="down") == 1
    assert value(series, "replica_calls_in_flight", replica="triton-2") == 4
    states = {s: value(series, "workers", state=s) for s in ("busy", "paused", "gone", "idle")}
    assert states == {"busy": 1, "paused": 1, "gone": 1, "idle": 0}
    assert value(series, "messages_in_flight") == 5


LOADS = {"cpu_share": 0.5, "memory_share": 0.25, "gpu_share": 0.75, "gpu_memory_share": 0.125}


def busy(now: datetime) -> None:
    """One process of each role, with every figure that there is."""
    told = replica(queue_depth=12, mean_queue_ms=4.0, server_load=LOADS, checked_at_s=1.0)
    counts = {"hedges": 2, "shed": 3, "rejected": 4, "verdicts": 1, "claimed": 1}
    gauges = {"retry_budget": 7.5, "in_flight_batches": 2}
    store(
        sample(now, "worker-1", replicas=[told], gauges=gauges, total_ms=[1.0], **counts),
        sample(now, "web-1", role="web", gauges={"viewers": 40}),
    )


def test_second_attempts_and_refusals_are_counted() -> None:
    now = timezone.now()
    busy(now)
    store(sample(now, "worker-2", hedges=1, gauges={"retry_budget": 3.0, "in_flight_batches": 1}))
    series = scrape(now)
    assert value(series, "inference_hedges_total") == 3
    assert value(series, "calls_shed_total") == 3
    assert value(series, "calls_rejected_total") == 4
    assert value(series, "retry_budget") == 3
    assert value(series, "batches_in_flight") == 3


def test_viewers_of_all_web_processes_that_live_are_counted() -> None:
    now = timezone.now()
    busy(now)
    gone = now - timedelta(seconds=8)
    store(sample(now, "web-2", role="web", gauges={"viewers": 2}))
    store(sample(gone, "web-3", role="web", gauges={"viewers": 500}))
    series = scrape(now)
    assert value(series, "websocket_viewers") == 42
    assert value(series, "web_processes") == 2


def test_load_of_each_replicas_machine_is_told_and_nothing_where_it_is_not_known() -> None:
    now = timezone.now()
    busy(now)
    store(sample(now, "worker-2", replicas=[replica("triton-2")]))
    series = scrape(now)
    told = {name: value(series, f"replica_{name}_ratio", replica="triton-1") for name in _SHORT}
    assert told == {name: LOADS[f"{name}_share"] for name in _SHORT}
    assert value(series, "replica_requests_queued", replica="triton-1") == 12
    assert value(series, "replica_queue_seconds", replica="triton-1") == 0.004
    of_other = {name for name, labels in series if ("replica", "triton-2") in labels}
    assert not any(name.endswith(("_ratio", "_queued", "queue_seconds")) for name in of_other)


_SHORT = ("cpu", "memory", "gpu", "gpu_memory")


def test_nothing_of_messages_groups_or_senders_is_told() -> None:
    message = MessageFactory(
        text="sesame-text",
        group=GroupFactory(external_id="sesame-group", name="sesame-name"),
        sender=SenderFactory(external_id="sesame-sender", name="sesame-person"),
    )
    now = timezone.now()
    store(sample(now, "worker-1@sesame-host", verdicts=1, replicas=[replica()]))
    text = render(read_scrape(now=now)).decode()
    assert "sesame" not in text
    assert str(message.pk) not in text


# ---------- what deploy/ asks for ----------


def expressions() -> Iterator[Any]:
    alerts = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield pytest.param(rule["expr"], id=rule["alert"])
    board = json.loads((DEPLOY / "grafana/chatwarden.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield pytest.param(variable["query"]["query"], id=variable["name"])


SELECTOR = re.compile(r"(chatwarden_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
# What Prometheus adds to each series.
ADDED = {"instance", "job"}


@pytest.mark.parametrize("expression", list(expressions()))
def test_every_expression_in_deploy_finds_its_series(expression: str) -> None:
    now = timezone.now()
    busy(now)
    exported = list(scrape(now))
    asked = SELECTOR.findall(expression) or [("up", "")]
    for name, matchers in asked:
        found = [dict(labels) for exported_name, labels in exported if exported_name == name]
        assert found or name == "up", f"{name} is not exported"
        for label, operator, pattern in MATCHER.findall(matchers):
            if label in ADDED:
                continue
            values = {labels[label] for labels in found}
            wanted = set(pattern.split("|")) if "~" in operator else {pattern}
            assert wanted <= values, f"{name} has no {label} {wanted - values}"


def test_every_exported_figure_is_drawn_or_watched() -> None:
    now = timezone.now()
    busy(now)
    families = text_string_to_metric_families(render(read_scrape(now=now)).decode())
    asked = " ".join(parameter.values[0] for parameter in expressions())
    assert [family.name for family in families if family.name not in asked] == []


def test_every_grouping_label_exists() -> None:
    now = timezone.now()
    busy(now)
    labels = {label for _, pairs in scrape(now) for label, _ in pairs}
    for parameter in expressions():
        for group in re.findall(r"by \(([^)]*)\)", parameter.values[0]):
            assert set(group.split(", ")) <= labels
