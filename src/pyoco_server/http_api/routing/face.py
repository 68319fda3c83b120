"""The operations of one dialect, with the schemas they speak of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.routing import BaseRoute

from pyoco_server.http_api.routing.operation import Operation
from pyoco_server.http_api.routing.schemas import Schema

# Credentials that are missing, that are not enough, and a broker that is away.
ALWAYS = (401, 403, 503)


@dataclass(frozen=True, slots=True)
class Face:
    """`error`: the name of the schema of its errors. `head`: whether HEAD is served where GET is."""

    tag: str
    error: str
    operations: Sequence[Operation]
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    always: Sequence[int] = ALWAYS
    head: bool = True

    def routes(self) -> list[BaseRoute]:
        return [operation.route(head=self.head) for operation in self.operations]

    def describe(self) -> Iterator[tuple[str, str, Schema]]:
        """Path, method and description of each operation."""
        for operation in self.operations:
            path = operation.path.replace(":path}", "}")
            described = operation.describe(self.tag, self.error, self.always)
            yield path, operation.method.lower(), described
