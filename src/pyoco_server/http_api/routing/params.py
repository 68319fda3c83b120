"""Parameters of requests. A parameter is declared once; it reads and describes itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from starlette.requests import HTTPConnection

from pyoco_server.errors import Invalid
from pyoco_server.http_api.routing.kinds import Kind, TextKind, Unfit
from pyoco_server.http_api.routing.schemas import Schema

T_co = TypeVar("T_co", covariant=True)
Place = Literal["query", "header", "path", "body"]


@dataclass(frozen=True)
class Param(Generic[T_co]):
    """`skips`: which texts count as missing. `err_id` None: the default id."""

    name: str
    kind: Kind[T_co]
    default: T_co
    description: str = ""
    place: Place = "query"
    required: bool = False
    skips: Literal["nothing", "empty", "blank"] = "nothing"
    err_id: str | None = None

    def read(self, request: HTTPConnection) -> T_co:
        text = self._text(request)
        if text is None or self._is_skipped(text):
            return self.default
        return self.parse(text)

    def parse(self, text: str) -> T_co:
        try:
            return self.kind.read(text)
        except Unfit as unfit:
            raise self.refuse(str(unfit)) from None

    def refuse(self, rest: str) -> Invalid:
        """`rest`: the message after the name of the parameter."""
        return Invalid.at([self.place, self.name], f"{self.name} {rest}", err_id=self.err_id)

    def with_error(self, err_id: str) -> Param[T_co]:
        return replace(self, err_id=err_id)

    def describe(self) -> Schema:
        schema = self.kind.schema()
        if self.default not in (None, "", ()):
            schema["default"] = self.default
        described: Schema = {
            "name": self.name,
            "in": self.place,
            "required": self.required or self.place == "path",
            "schema": schema,
        }
        return described | ({"description": self.description} if self.description else {})

    def _is_skipped(self, text: str) -> bool:
        match self.skips:
            case "nothing":
                return False
            case "empty":
                return not text
            case "blank":
                return not text.strip()

    def _text(self, request: HTTPConnection) -> str | None:
        match self.place:
            case "query":
                return request.query_params.get(self.name)
            case "header":
                return request.headers.get(self.name)
            case "path":
                return str(request.path_params[self.name])
            case "body":
                raise AssertionError("members of a body are given to parse")


@dataclass(frozen=True)
class ListParam(Generic[T_co]):
    """A query parameter that may be repeated."""

    name: str
    kind: Kind[T_co]
    description: str = ""
    required: bool = False
    least: int = 0
    most: int | None = None
    err_id: str | None = None
    skips_empty: bool = False

    def read(self, request: HTTPConnection) -> tuple[T_co, ...]:
        given = request.query_params.getlist(self.name)
        return tuple(self._parse(text) for text in given if text or not self.skips_empty)

    def with_error(self, err_id: str) -> ListParam[T_co]:
        return replace(self, err_id=err_id)

    def describe(self) -> Schema:
        schema: Schema = {"type": "array", "items": self.kind.schema()}
        if self.least:
            schema["minItems"] = self.least
        if self.most is not None:
            schema["maxItems"] = self.most
        described: Schema = {"name": self.name, "in": "query", "required": self.required, "schema": schema}
        return described | ({"description": self.description} if self.description else {})

    def _parse(self, text: str) -> T_co:
        try:
            return self.kind.read(text)
        except Unfit as unfit:
            raise Invalid.at(["query", self.name], f"{self.name} {unfit}", err_id=self.err_id) from None


AnyParam = Param[object] | ListParam[object]


def text(name: str, description: str = "") -> Param[str | None]:
    """A query parameter, as text."""
    return Param[str | None](name, TextKind(), None, description)


def path(name: str, kind: Kind[str] | None = None) -> Param[str]:
    """A path parameter. Each face has its own error for an invalid id."""
    return Param(name, kind or TextKind(), "", place="path")


def header(
    name: str, description: str, kind: Kind[str] | None = None, *, required: bool = False
) -> Param[str | None]:
    return Param[str | None](name, kind or TextKind(), None, description, place="header", required=required)


# Parameters of streams, the same on every face.
LAST_EVENT_ID = header("Last-Event-ID", "The id that was read last: only what is newer comes.")
TICKET = text("ticket", "Of POST /tickets, for clients that cannot send a key.")
