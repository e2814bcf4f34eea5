"""A scrape: what `readings.py` tells, in Prometheus' text format, made in slices.

prometheus-client writes the lines. A family with thousands of samples is written in several goes, of which
only the first keeps the two lines that head it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from liftlog.eyes.durations import Durations
from liftlog.eyes.names import COUNTER, GAUGE, Family
from liftlog.eyes.readings import Sample, Slice

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Lone(Collector):
    """What prometheus-client takes for a registry."""

    def __init__(self, *metrics: Metric) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def write(slices: Iterable[Slice]) -> Iterator[bytes]:
    """The page in parts; each takes about as long as the slice it is made of."""
    begun = ""
    for family, samples in slices:
        if not samples:
            # Something was counted only, or there is nothing of this kind.
            yield b""
            continue
        text = generate_latest(_Lone(_metric(family, samples)))
        yield text[len(_head(family)) :] if family.name == begun else text
        begun = family.name
    yield generate_latest(_process())


def _metric(family: Family, samples: Iterable[Sample]) -> Metric:
    if family.kind == GAUGE:
        gauge = GaugeMetricFamily(family.name, family.text, labels=family.labels)
        for labels, value in samples:
            assert not isinstance(value, Durations)
            gauge.add_metric(labels, value)
        return gauge
    if family.kind == COUNTER:
        counter = CounterMetricFamily(family.name, family.text, labels=family.labels)
        for labels, value in samples:
            assert not isinstance(value, Durations)
            counter.add_metric(labels, value)
        return counter
    histogram = HistogramMetricFamily(family.name, family.text, labels=family.labels)
    for labels, value in samples:
        assert isinstance(value, Durations)
        histogram.add_metric(labels, buckets=value.cumulated(), sum_value=value.sum_ms / 1000)
    return histogram


@cache
def _head(family: Family) -> bytes:
    return generate_latest(_Lone(_metric(family, ())))


@cache
def _process() -> Collector:
    return ProcessCollector(registry=None)
