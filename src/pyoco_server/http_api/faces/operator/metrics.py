"""`/metrics` in Prometheus' text format (REQ-0014): the specification's names, and better ones beside them.

A tenant's caller gets the figures of its tenant; one with the scope `ops:read_all` those of the installation.
What each number means, and how two gateways are read together, is in docs/reference/metrics.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from pyoco_server.http_api.context import ready_gateway
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.routing.operation import Content, Operation
from pyoco_server.http_api.routing.schemas import TEXT
from pyoco_server.http_api.server.connections import REASONS, Connections
from pyoco_server.operations.concurrency import Concurrency
from pyoco_server.operations.fleet.counters import Counters, Histogram
from pyoco_server.operations.fleet.metrics import Figures, FleetFigures, figures, fleet_figures
from pyoco_server.operations.fleet.storage import StorageWatch
from pyoco_server.operations.identity.callers import Scope
from pyoco_server.operations.rechecks.context import RecheckCounters
from pyoco_server.supervision import failures_by_loop

VERSION = version("pyoco-server")
TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"

T = TypeVar("T")
# By the value of one label, or by the values of several.
Labelled = Mapping[str, T] | Mapping[tuple[str, str], T]

_WHOLE = re.compile(rb"\.0$", re.MULTILINE)


async def metrics(request: Request) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    if caller.tenant_id is not None and not caller.may(Scope.OPS_READ_ALL):
        own = await figures(gateway.store, gateway.read_model, caller.tenant_id)
        return Response(_text(_shown_to_tenants(own)), media_type=TEXT_FORMAT)
    now = await fleet_figures(gateway.store, gateway.read_model)
    at_once = {
        "streams": gateway.streams.concurrency,
        "log_searches": gateway.log_pages.searches.concurrency,
    }
    of_gateway = [
        *_gateway(now, gateway.is_housekeeper),
        *_storage(gateway.storage),
        *_http(gateway.connections),
        *_at_once(at_once),
    ]
    text = exposition(now, of_gateway, gateway.counters, gateway.rechecks.counters)
    return Response(text, media_type=TEXT_FORMAT)


def exposition(
    now: FleetFigures, of_gateway: Iterable[Metric], seen: Counters, rechecks: RecheckCounters
) -> bytes:
    families = [*_standing(now), *of_gateway, *_seen(seen), *_rechecks(rechecks)]
    return _text([*_shown_to_tenants(now.figures), *families], ProcessCollector)


def _text(families: Iterable[Metric], *more: Callable[..., Collector]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    for collector in more:
        collector(registry=registry)
    # Whole numbers as the specification shows them: `1` and not `1.0`.
    return _WHOLE.sub(b"", generate_latest(registry))


class _Families(Collector):
    """The metrics of one response."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _shown_to_tenants(now: Figures) -> Iterator[Metric]:
    yield _gauge("pyoco_runs_total", "Runs by status (the specification's name).", now.runs, "status")
    yield _gauge("pyoco_runs", "Runs by status.", now.runs, "status")
    text = "Runs that changed last today, by status."
    yield _gauge("pyoco_runs_today_total", text, now.runs_today, "status")
    yield _gauge("pyoco_workers_alive_total", "Living workers (the specification's name).", now.workers_alive)
    yield _gauge("pyoco_workers_alive", "Workers that run or wait.", now.workers_alive)
    yield _gauge("pyoco_workers_draining", "Of those, how many take no new runs.", now.workers_draining)
    yield _gauge("pyoco_worker_slots", "Slots of the living workers.", now.slots)
    yield _gauge("pyoco_worker_slots_free", "Of those, how many a new run may have.", now.slots_free)


def _standing(now: FleetFigures) -> Iterator[Metric]:
    text = "Kept dead letters (the specification's name)."
    yield _gauge("pyoco_dlq_messages_total", text, now.dead_letters)
    yield _gauge("pyoco_dead_letters", "Dead letters that are kept.", now.dead_letters)
    waiting = {tag: queue.waiting for tag, queue in now.queues.items()}
    in_work = {tag: queue.in_work for tag, queue in now.queues.items()}
    yield _gauge("pyoco_queue_jobs_waiting", "Jobs that no worker has, by tag.", waiting, "tag")
    yield _gauge("pyoco_queue_jobs_in_work", "Jobs that a worker has, by tag.", in_work, "tag")
    text = "How long the run has waited that has waited longest, by tag."
    yield _gauge("pyoco_queue_oldest_waiting_seconds", text, now.waiting_sec, "tag")


def _gateway(now: FleetFigures, is_housekeeper: bool) -> Iterator[Metric]:
    yield _gauge("pyoco_build_info", "The version of this gateway.", {VERSION: 1}, "version")
    yield _gauge("pyoco_read_model_lag_commits", "Commits this gateway has not read yet.", now.lag)
    yield _gauge("pyoco_housekeeper", "1 where housekeeping is done, 0 where it is watched.", is_housekeeper)
    yield _counter("pyoco_broker_reconnects", "Connections to the broker lost and renewed.", now.reconnects)
    yield _counter("pyoco_feed_restarts", "Times the log had to be followed again.", now.feed_restarts)
    yield _counter("pyoco_loop_failures", "Failures of background loops.", failures_by_loop(), "loop")


def _storage(watch: StorageWatch) -> Iterator[Metric]:
    yield _gauge("pyoco_storage_low", "1 while new work is refused for lack of storage.", watch.is_low)
    disk, used = watch.disk, watch.used_bytes
    text = "What the broker keeps, counted before it compresses."
    yield _gauge("pyoco_broker_storage_bytes", text, used)
    text = "Free on the disk of the embedded broker."
    yield _gauge("pyoco_broker_disk_free_bytes", text, None if disk is None else disk.free_bytes)
    text = "Size of the disk of the embedded broker."
    yield _gauge("pyoco_broker_disk_bytes", text, None if disk is None else disk.total_bytes)


def _http(connections: Connections) -> Iterator[Metric]:
    yield _gauge("pyoco_http_connections", "Connections that are open.", connections.open)
    rejected = dict.fromkeys(REASONS, 0) | connections.rejected
    text = "Connections and requests refused or ended because of a limit, by which one."
    yield _counter("pyoco_http_rejected", text, rejected, "reason")


def _at_once(kinds: Mapping[str, Concurrency]) -> Iterator[Metric]:
    for name, one in kinds.items():
        words = name.replace("_", " ")
        yield _gauge(f"pyoco_{name}_open", f"Open {words} of this gateway.", one.under_way)
        yield _counter(f"pyoco_{name}_refused", f"Refused {words}: too many were open.", one.refused)


def _seen(seen: Counters) -> Iterator[Metric]:
    yield _counter("pyoco_commits", "Commits seen in the log.", seen.commits)
    events = {kind.__name__: count for kind, count in seen.events.items()}
    yield _counter("pyoco_events", "Events seen in the log, by type.", events, "type")
    yield _counter("pyoco_dead_letters_published", "Dead letters seen, by reason.", seen.letters, "reason")
    yield _histogram("pyoco_run_start_delay_seconds", "From submission to the first claim.", seen.start_delay)
    durations = {status.value: spread for status, spread in seen.run_durations.items()}
    text = "From the first claim to the end, by how it ended."
    yield _histogram("pyoco_run_duration_seconds", text, durations, "status")
    tasks = {"SUCCEEDED": seen.tasks_succeeded, "FAILED": seen.tasks_failed}
    text = "One attempt of a task, by how it ended."
    yield _histogram("pyoco_task_duration_seconds", text, tasks, "state")
    yield _histogram("pyoco_cancel_delay_seconds", "From a cancel request to the end.", seen.cancel_delay)


def _rechecks(seen: RecheckCounters) -> Iterator[Metric]:
    """By the names of the document of the recheck face, with `_` for `.`."""
    labels = ("endpoint", "outcome")
    yield _counter("pdca_api_requests", "Requests by route and outcome.", seen.requests, *labels)
    yield _histogram("pdca_api_latency_ms", "How long answers took.", seen.latency, "endpoint")
    text = "Keys used for another request."
    yield _counter("pdca_api_idempotency_conflicts", text, seen.idempotency_conflicts)
    yield _counter("airflow_adapter_requests", "Requests to Airflow.", seen.airflow, *labels)


def _gauge(name: str, text: str, value: float | Labelled[float] | None, *labels: str) -> Metric:
    """Without a sample where the value is not known."""
    known = {} if value is None else value
    return _fill(GaugeMetricFamily(name, text, labels=labels), known)


def _counter(name: str, text: str, value: float | Labelled[float], *labels: str) -> Metric:
    """Its samples end in `_total`."""
    return _fill(CounterMetricFamily(name, text, labels=labels), value)


def _fill(family: GaugeMetricFamily | CounterMetricFamily, value: float | Labelled[float]) -> Metric:
    for labels, number in _by_label(value):
        family.add_metric(labels, number)
    return family


def _histogram(name: str, text: str, value: Histogram | Labelled[Histogram], *labels: str) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, one in _by_label(value):
        family.add_metric(values, one.cumulative(), one.total)
    return family


def _by_label(value: T | Labelled[T]) -> Iterator[tuple[Sequence[str], T]]:
    """One value, or one for each value of the labels."""
    if isinstance(value, Mapping):
        yield from (((key,) if isinstance(key, str) else key, one) for key, one in value.items())
    else:
        yield (), value


OPERATIONS = [
    Operation(
        "GET",
        "/metrics",
        metrics,
        "Numbers for Prometheus",
        {200: Content("Prometheus text format 0.0.4", {"text/plain": TEXT})},
    )
]
