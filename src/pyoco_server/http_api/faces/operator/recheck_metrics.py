"""The numbers of the recheck face, by the names of its document with `_` for `.`."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from pyoco_server.operations.rechecks.context import RecheckCounters


def recheck_families(seen: RecheckCounters) -> Iterator[Metric]:
    labels = ["endpoint", "outcome"]
    requests = CounterMetricFamily("pdca_api_requests", "Requests by route and outcome.", labels=labels)
    for label, count in seen.requests.items():
        requests.add_metric(label, count)
    yield requests
    latency = HistogramMetricFamily("pdca_api_latency_ms", "How long answers took.", labels=["endpoint"])
    for endpoint, one in seen.latency.items():
        latency.add_metric([endpoint], one.cumulative(), one.total)
    yield latency
    text = "Keys used for another request."
    yield CounterMetricFamily("pdca_api_idempotency_conflicts", text, seen.idempotency_conflicts)
    airflow = CounterMetricFamily("airflow_adapter_requests", "Requests to Airflow.", labels=labels)
    for label, count in seen.airflow.items():
        airflow.add_metric(label, count)
    yield airflow
