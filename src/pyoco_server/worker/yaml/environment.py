"""`$env.NAME` in a workflow: which variables of the worker it may read.

A workflow comes over the network, and the environment of a worker may contain secrets. So only the variables
that the operator has named can be read. Settings of the server can never be read.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyoco_server.expressions import environment_names, is_setting
from pyoco_server.worker.attempt.reasons import CodeRefused

ANY_END = "*"
_REFERENCE = "$env."


class Readable:
    """Names, and prefixes of names, which end with `*`."""

    def __init__(self, allowed: Iterable[str]) -> None:
        names = tuple(allowed)
        self._names = frozenset(name for name in names if not name.endswith(ANY_END))
        self._prefixes = tuple(name.removesuffix(ANY_END) for name in names if name.endswith(ANY_END))

    def check_expression(self, source: str) -> None:
        """Raises CodeRefused."""
        for name in environment_names(source):
            self._check(name)

    def check_input(self, value: object) -> None:
        """Raises CodeRefused."""
        if isinstance(value, str) and value.startswith(_REFERENCE):
            self._check(value.removeprefix(_REFERENCE))

    def _check(self, name: str) -> None:
        if is_setting(name) or not (name in self._names or name.startswith(self._prefixes)):
            raise CodeRefused(
                f"This worker does not let a workflow read the environment variable '{name}'. "
                "Add it to PYOCO_FLOW_ENV on the worker, or pass the value as a parameter."
            )
