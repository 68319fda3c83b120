"""The description of a setting: its variable, default, meaning, allowed values, and how it may be shown."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, get_args

from pydantic.fields import FieldInfo

from pyoco_server.config.kinds import Allowed
from pyoco_server.config.table import Table

ENV_PREFIX = "PYOCO_"
SECRETS = frozenset({"auth_pepper", "nats_password", "airflow_token", "airflow_password"})


def field_names() -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(Table))


def variable_of(name: str) -> str:
    return ENV_PREFIX + name.upper()


def default_of(name: str) -> Any:
    return _field(name).default


def meaning_of(name: str) -> str:
    return _field(name).description or ""


def allowed_for(name: str) -> str:
    """What may be written, in words: `seconds, above 0`."""
    field = _field(name)
    words = [item.words for item in field.metadata if isinstance(item, Allowed)]
    return words[0] if words else " or ".join(f"`{value}`" for value in get_args(field.annotation))


def as_written(value: object) -> str:
    """A value as it is written in the environment."""
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None else str(value)


def without_credentials(url: str) -> str:
    return re.sub(r"[^\s,/@]+@", "", url)


def _field(name: str) -> FieldInfo:
    fields: dict[str, FieldInfo] = vars(Table)["__pydantic_fields__"]
    return fields[name]


def shown(name: str, value: object) -> str:
    """A value for people: without secrets, and without passwords in addresses."""
    if name in SECRETS:
        return "'***'"
    return (
        repr(without_credentials(value)) if name.endswith("_url") and isinstance(value, str) else repr(value)
    )
