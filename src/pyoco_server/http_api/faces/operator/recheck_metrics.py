"""The numbers of the recheck face, by the names of its document with `_` for `.`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from pyoco_server.operations.rechecks.counters import BOUNDS_MS, RecheckCounters


def recheck_families(seen: RecheckCounters) -> Iterator[Metric]:
    labels = ["endpoint", "outcome"]
    requests = CounterMetricFamily("pdca_api_requests", "Requests by route and outcome.", labels=labels)
    for label, count in seen.requests.items():
        requests.add_metric(label, count)
    yield requests
    latency = HistogramMetricFamily("pdca_api_latency_ms", "How long answers took.", labels=["endpoint"])
    bounds = [*map(str, BOUNDS_MS), "+Inf"]
    for endpoint, one in seen.latency.items():
        buckets = [(bound, float(sum_)) for bound, sum_ in zip(bounds, accumulate(one.counts), strict=True)]
        latency.add_metric([endpoint], buckets, one.total_ms)
    yield latency
    text = "Keys used for another request."
    yield CounterMetricFamily("pdca_api_idempotency_conflicts", text, seen.idempotency_conflicts)
    airflow = CounterMetricFamily("airflow_adapter_requests", "Requests to Airflow.", labels=labels)
    for label, count in seen.airflow.items():
        airflow.add_metric(label, count)
    yield airflow
