from __future__ import annotations

from collections.abc import Callable

import pytest

from inference import (
    BalancerConfig,
    BreakerConfig,
    ClientConfig,
    DeadlineConfig,
    HedgeConfig,
    PoolConfig,
    ReplicaConfig,
    RetryConfig,
    TlsConfig,
)

REPLICA = ReplicaConfig("a", grpc="127.0.0.1:8001")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ClientConfig([]), "at least one replica"),
        (lambda: ClientConfig([REPLICA, REPLICA]), "names must differ"),
        (lambda: ClientConfig("triton:8001"), "dns:///host:port"),
        (lambda: ReplicaConfig("a", grpc="http://triton:8001"), "host:port"),
        (lambda: ReplicaConfig("", grpc="triton:8001"), "needs a name"),
        (lambda: PoolConfig(connections_per_replica=0), "connections_per_replica"),
        (lambda: PoolConfig(max_in_flight_bytes=1), "max_in_flight_bytes"),
        (lambda: PoolConfig(reconnect_first_ms=500), "reconnect_first_ms"),
        (lambda: DeadlineConfig(check_budget_ms=0), "check_budget_ms"),
        (lambda: RetryConfig(max_attempts=0), "max_attempts"),
        (lambda: RetryConfig(budget_ratio=1.5), "budget_ratio"),
        (lambda: HedgeConfig(after_quantile=1.0), "after_quantile"),
        (lambda: BreakerConfig(failure_rate=0), "failure_rate"),
        (lambda: BreakerConfig(open_first_s=60), "open_first_s"),
        (lambda: BalancerConfig(max_ejected_share=2), "max_ejected_share"),
    ],
)
def test_a_bad_value_is_refused_with_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_pings_that_make_triton_hang_up_are_refused() -> None:
    # server default: 300 s between pings without data, else GOAWAY "Too many pings".
    with pytest.raises(ValueError, match="Too many pings"):
        PoolConfig(keepalive_s=10)
    assert PoolConfig(keepalive_s=300).keepalive_s == 300


def test_half_a_client_certificate_is_refused() -> None:
    with pytest.raises(ValueError, match="both cert_file and key_file"):
        TlsConfig(cert_file=__file__)  # type: ignore[arg-type]
