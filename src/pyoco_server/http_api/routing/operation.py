"""One method at one path: parameters, body, responses, and the function that serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from pyoco_server.http_api.routing.params import AnyParam
from pyoco_server.http_api.routing.schemas import TEXT, Schema

JSON, EVENTS = "application/json", "text/event-stream"

Serve = Callable[[Request], Awaitable[Response]]
ServeSocket = Callable[[WebSocket], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Content:
    """A body or a response: schemas by media type. `more`: further members of the OpenAPI entry."""

    description: str = ""
    kinds: Mapping[str, Schema] = field(default_factory=dict)
    required: bool = True
    more: Schema = field(default_factory=dict)

    def describe(self, *, is_body: bool = False) -> Schema:
        described: Schema = {"required": self.required} if is_body else {"description": self.description}
        if self.kinds:
            described["content"] = {kind: {"schema": schema} for kind, schema in self.kinds.items()}
        return described | self.more


# Describes an error of this status on a face.
Refusal = Callable[[int], Content]


def json_of(description: str, schema: Schema, **more: object) -> Content:
    return Content(description, {JSON: schema}, more=more)


def events(description: str = "The stream") -> Content:
    return Content(description, {EVENTS: TEXT})


def json_body(schema: Schema, *, required: bool = True) -> Content:
    return Content(kinds={JSON: schema}, required=required)


@dataclass(frozen=True, slots=True)
class Operation:
    """`name`: the operationId, else the name of `serve`. `errors`: besides those of every operation.

    `never`: errors of every operation that this one cannot give.
    `socket`: serves it instead, as a WebSocket.
    `is_hot`: served without Starlette's router. `is_public`: needs no credentials, gives no 401, 403 or 503.
    `more`: further members of the OpenAPI entry.
    """

    method: str
    path: str
    serve: Serve | None
    summary: str
    responses: Mapping[int, Content]
    params: Sequence[AnyParam] = ()
    body: Content | None = None
    errors: Sequence[int] = ()
    never: Sequence[int] = ()
    description: str = ""
    name: str = ""
    is_hot: bool = False
    is_public: bool = False
    socket: ServeSocket | None = None
    more: Schema = field(default_factory=dict)

    def route(self, *, head: bool = True) -> BaseRoute:
        """`head`: whether HEAD is served where GET is."""
        if self.socket is not None:
            return WebSocketRoute(self.path, self.socket)
        assert self.serve is not None, "an operation has serve or socket"
        route = Route(self.path, self.serve, methods=[self.method])
        if not head and route.methods:
            route.methods.discard("HEAD")
        return route

    def describe(self, tag: str, refusal: Refusal, always: Sequence[int]) -> Schema:
        """`always`: errors that every operation may give."""
        described: Schema = {"tags": [tag], "summary": self.summary}
        if self.description:
            described["description"] = self.description
        described["operationId"] = self.name or getattr(self.serve, "__name__", "")
        if self.params:
            described["parameters"] = [param.describe() for param in self.params]
        if self.body is not None:
            described["requestBody"] = self.body.describe(is_body=True)
        refusals = sorted({*self.errors, *(() if self.is_public else always)}.difference(self.never))
        replies = {str(status): content.describe() for status, content in self.responses.items()}
        wrong = {str(status): refusal(status).describe() for status in refusals}
        return described | {"responses": wrong | replies} | self.more
