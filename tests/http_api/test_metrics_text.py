"""Our writer of Prometheus' text says what the library's says; whole numbers it writes as such."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from pyoco_server.http_api.faces.operator.metrics_text import text_of

# Without -0.0, for which we write 0.
NUMBERS = (st.floats() | st.integers(-(10**12), 10**12).map(float)).map(lambda number: number + 0.0)
LABELS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


class Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def theirs(families: list[Metric]) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(families))
    return re.sub(r"\.0$", "", generate_latest(registry).decode(), flags=re.MULTILINE)


@given(st.dictionaries(LABELS, NUMBERS, max_size=5), NUMBERS)
def test_gauges_and_counters_are_written_as_the_library_does(numbers: dict[str, float], one: float) -> None:
    gauge = GaugeMetricFamily("pyoco_gauge", "Says so.", labels=["tag"])
    counter = CounterMetricFamily("pyoco_counter", "Counts.", labels=["reason"])
    for label, number in numbers.items():
        gauge.add_metric([label], number)
        counter.add_metric([label], number)
    families: list[Metric] = [gauge, counter, GaugeMetricFamily("pyoco_one", "One.", value=one)]
    assert text_of(families).decode() == theirs(families)


@given(st.lists(st.integers(0, 10**9), min_size=3, max_size=3), st.floats(0, 1e9))
def test_histograms_are_written_as_the_library_does(counts: list[int], total: float) -> None:
    histogram = HistogramMetricFamily("pyoco_spread", "How long.", labels=["status"])
    bounds = ("0.001", "2.5", "+Inf")
    histogram.add_metric(["FAILED"], list(zip(bounds, map(float, counts), strict=True)), total)
    assert text_of([histogram]).decode() == theirs([histogram])


def test_what_is_no_number_is_written_all_the_same() -> None:
    gauges = [GaugeMetricFamily("g", "G.", value=value) for value in (math.nan, math.inf, -math.inf)]
    assert [line.split()[-1] for line in text_of(gauges).decode().splitlines()[2::3]] == [
        "NaN",
        "+Inf",
        "-Inf",
    ]
