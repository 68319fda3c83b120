"""Families of metrics as Prometheus' text format 0.0.4, for names that are ours and need no escaping.

The library's own writer checks and escapes every name of every sample anew, which is two thirds of what
`/metrics` would cost. Only values of labels come from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

from prometheus_client.core import Metric
from prometheus_client.utils import floatToGoString

_with_exponent: Callable[[float], str] = floatToGoString
# From here on numbers are written with an exponent.
_PLAIN_MAX = 1_000_000
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def text_of(families: Iterable[Metric]) -> bytes:
    return "".join(line for family in families for line in _lines(family)).encode()


def _lines(family: Metric) -> Iterator[str]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    yield f"# HELP {name} {family.documentation}\n# TYPE {name} {family.type}\n"
    for sample in family.samples:
        yield f"{sample.name}{_labels(sample.labels)} {_number(sample.value)}\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join([_label(name, labels[name]) for name in sorted(labels)]) + "}"


@lru_cache(maxsize=1024)
def _label(name: str, value: str) -> str:
    """The same ones are asked for again and again."""
    return f'{name}="{value.translate(_ESCAPED)}"'


def _number(value: float) -> str:
    """Whole numbers as the specification shows them: `1` and not `1.0`."""
    if -_PLAIN_MAX < value < _PLAIN_MAX and value == int(value):
        return str(int(value))
    return _with_exponent(value).removesuffix(".0")
