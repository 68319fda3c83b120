"""The operations of one dialect, with their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.routing import BaseRoute

from pyoco_server.http_api.routing.operation import Content, Operation, Refusal, json_of
from pyoco_server.http_api.routing.schemas import Schema, ref

# Missing credentials, insufficient credentials, no connection to the broker.
ALWAYS = (401, 403, 503)


@dataclass(frozen=True, slots=True)
class Face:
    """`error`: the name of the schema of its errors. `head`: whether HEAD is served where GET is.

    `refusal`: describes an error, if not by that schema. `security`: the OpenAPI member of operations without
    one, if it differs from that of the document.
    """

    tag: str
    error: str
    operations: Sequence[Operation]
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    always: Sequence[int] = ALWAYS
    head: bool = True
    refusal: Refusal | None = None
    security: Sequence[Schema] = ()

    def routes(self) -> list[BaseRoute]:
        return [operation.route(head=self.head) for operation in self.operations]

    def describe(self) -> Iterator[tuple[str, str, Schema]]:
        """Path, method and description of each operation."""
        refusal = self.refusal or self._refusal
        for operation in self.operations:
            path = operation.path.replace(":path}", "}")
            described = operation.describe(self.tag, refusal, self.always)
            if self.security:
                described.setdefault("security", list(self.security))
            yield path, operation.method.lower(), described

    def _refusal(self, _status: int) -> Content:
        return json_of("Error", ref(self.error))
