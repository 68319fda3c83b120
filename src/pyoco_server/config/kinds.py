"""The types of settings with their bounds, and the words that describe them."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from pyoco_server.names import ROUTING_TAG_PATTERN

MAX_SEC = 10 * 365 * 86_400.0
MAX_COUNT = 2**53
MAX_MESSAGE_BYTES = 64 * 2**20  # the largest limit that a nats-server accepts


@dataclasses.dataclass(frozen=True, slots=True)
class Allowed:
    """The allowed values in words, for the documentation and for refusals."""

    words: str


def _plain(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _capital(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


def _number(value: object) -> object:
    """The environment has only text, which a literal type of numbers does not accept."""
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def _methods(value: object) -> object:
    """`jwt, api_key` is the same as `api_key,jwt`."""
    if not isinstance(value, str):
        return value
    return ",".join(sorted({part.strip().lower() for part in value.split(",")}))


def _text(pattern: str) -> object:
    return Field(pattern=f"^(?:{pattern})$")


_TOKEN = r"[A-Za-z0-9_-]+"
_SERVER = r"((nats|tls|ws|wss)://)?([^\s,/@]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?"
_MODULE = r"[A-Za-z_][A-Za-z0-9_.]*"
_VARIABLE = r"[A-Za-z][A-Za-z0-9_.]*\*?"

Seconds = Annotated[float, Field(gt=0, le=MAX_SEC), Allowed("seconds, above 0")]
Wait = Annotated[float, Field(ge=0, le=MAX_SEC), Allowed("seconds, 0 or more")]
Lease = Annotated[float, Field(gt=1, le=MAX_SEC), Allowed("seconds, above 1")]
Kept = Annotated[float, Field(ge=86_400, le=MAX_SEC), Allowed("seconds, 86400 (24 hours) or more")]
Bytes = Annotated[int, Field(ge=1, le=MAX_COUNT), Allowed("bytes, 1 or more")]
Message = Annotated[int, Field(ge=1024, le=MAX_MESSAGE_BYTES), Allowed("bytes, 1024 to 67108864")]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT), Allowed("a whole number, 1 or more")]
Slots = Annotated[int, Field(ge=0, le=1024), Allowed("0 to 1024; 0 means one per core")]
RunsInSlot = Annotated[int, Field(ge=1, le=16), Allowed("1 to 16")]
Port = Annotated[int, Field(ge=0, le=65_535), Allowed("0 to 65535; 0 means any free port")]
Flag = Annotated[bool, Allowed("`1` or `0` (also true/false, yes/no, on/off)")]
Name = Annotated[str, _text(_TOKEN), Allowed("letters, digits, `_` and `-`")]
Subject = Annotated[
    str, _text(rf"{_TOKEN}(\.{_TOKEN})*"), Allowed("letters, digits, `_`, `-`; parts joined by dots")
]
Tag = Annotated[str, Field(pattern=ROUTING_TAG_PATTERN), Allowed("1 to 64 letters, digits, `_` and `-`")]
Servers = Annotated[
    str,
    _text(rf"\s*{_SERVER}(\s*,\s*{_SERVER})*\s*"),
    Allowed("`nats://host:port`, several joined by commas"),
]
Host = Annotated[str, _text(r"[^\s/]+"), Allowed("a host name or address")]
Hosts = Annotated[str, _text(r"[A-Za-z0-9._:\[\],\s-]*"), Allowed("host names joined by commas, or empty")]
WebAddress = Annotated[
    str,
    _text(r"(https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^\s?#]*)?)?"),
    Allowed("`https://host`, with a port and a path if need be; or empty"),
]
Header = Annotated[str, _text(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"), Allowed("the name of a header")]
Packages = Annotated[
    str, _text(rf"\s*({_MODULE}(\s*,\s*{_MODULE})*\s*)?"), Allowed("packages joined by commas, or empty")
]
Variables = Annotated[
    str,
    _text(rf"\s*({_VARIABLE}(\s*,\s*{_VARIABLE})*\s*)?"),
    Allowed("names of variables joined by commas, such as `REGION,APP_*`, or empty"),
]
FilePath = Annotated[str, Field(min_length=1), Allowed("a path")]
Word = Annotated[str, _text(r"\S+"), Allowed("text without spaces")]
Secret = Annotated[str | None, Allowed("text, or empty")]
Text = Annotated[str, Allowed("text, or empty")]
Replicas = Annotated[Literal[1, 3, 5], BeforeValidator(_number)]
Durability = Annotated[Literal["always", "interval"], BeforeValidator(_plain)]
AuthMode = Annotated[Literal["none", "api_key", "jwt", "api_key,jwt"], BeforeValidator(_methods)]
Scheduling = Annotated[Literal["auto", "batch", "normal"], BeforeValidator(_plain)]
Executor = Annotated[Literal["pyoco", "airflow"], BeforeValidator(_plain)]
SlotStart = Annotated[Literal["auto", "imports", "fresh"], BeforeValidator(_plain)]
Language = Annotated[Literal["auto", "ja", "en"], BeforeValidator(_plain)]
LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"], BeforeValidator(_capital)
]
LogFormat = Annotated[Literal["json", "text"], BeforeValidator(_plain)]
