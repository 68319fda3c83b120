"""The settings of a process, read once and checked once. No other module reads the environment.

`NatsBackendConfig(...)` takes keywords and never looks at the environment; `NatsBackendConfig.from_env()`
reads `PYOCO_<FIELD>` and the .env file. A refusal says in a sentence what to change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from pyoco_server.config.describe import (
    allowed_for,
    as_written,
    default_of,
    field_names,
    shown,
    variable_of,
)
from pyoco_server.config.names import Names
from pyoco_server.errors import ConfigError
from pyoco_server.expressions import is_setting
from pyoco_server.texts import Language, locale_language

_OF_THE_FILE = ("load_dotenv", "env_file")
LOG_SETTINGS = ("log_level", "log_format", "log_utc", "log_include_traceback")


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class NatsBackendConfig(Names):
    """The address of the broker, the names of streams and buckets, and every limit and interval."""

    @classmethod
    def from_env(cls) -> Self:
        """Settings from `PYOCO_*` and the .env file; the real environment wins, empty means unset.

        A wrong log setting stops no process: its default is used, and `configure_logging` reports it.
        """
        settings = read_environment()
        wrong = wrong_log_settings(settings)
        return cls.from_settings({name: value for name, value in settings.items() if name not in wrong})

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """By field; values are text or have their types. Raises ConfigError for a wrong one."""
        unchecked: dict[str, Any] = dict(settings)  # the constructor checks them
        return cls(**unchecked)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_in_words(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as refused:
            # Not `from refused`: its text would show the value of a secret.
            raise _refusal(refused) from None

    def __post_init__(self) -> None:
        broken = list(_broken_relations(self))
        if broken:
            raise ConfigError(" ".join(broken), details=[{"problem": sentence} for sentence in broken])

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in field_names())
        changed = (f"{name}={shown(name, value)}" for name, value in values if value != default_of(name))
        return f"NatsBackendConfig({', '.join(changed)})"


def read_environment() -> dict[str, str]:
    """The values of `PYOCO_*` and the .env file, by field and unchecked; without fields that are not set."""
    real = _settings_in(os.environ)
    switches = NatsBackendConfig.from_settings({name: real[name] for name in _OF_THE_FILE if name in real})
    if not switches.load_dotenv:
        return real
    file = Path(switches.env_file)
    if "env_file" in real and not file.exists():
        raise ConfigError(f"PYOCO_ENV_FILE names {str(file)!r}, which does not exist; name a file that does.")
    try:
        found = _settings_in(_variables_of(file)) | real
    except (OSError, UnicodeDecodeError) as unreadable:
        raise ConfigError(
            f"{str(file)!r} cannot be read as UTF-8 text ({unreadable}); correct it."
        ) from unreadable
    # The file does not decide whether it is read.
    return {name: value for name, value in found.items() if name in real or name not in _OF_THE_FILE}


def wrong_log_settings(settings: Mapping[str, object]) -> dict[str, str]:
    """The invalid log settings among these, each with what to write instead."""
    wrong = {}
    for name in LOG_SETTINGS:
        if name in settings:
            try:
                NatsBackendConfig.from_settings({name: settings[name]})
            except ConfigError as refused:
                wrong[name] = refused.message
    return wrong


def origins() -> dict[str, str]:
    """Where each setting comes from: `environment`, the name of the .env file, or `default`."""
    real = _settings_in(os.environ)
    found = dict.fromkeys(read_environment(), str(real.get("env_file", default_of("env_file"))))
    return dict.fromkeys(field_names(), "default") | found | dict.fromkeys(real, "environment")


def _settings_in(variables: Mapping[str, str | None]) -> dict[str, str]:
    """Settings by field, as text. Names in any case; an empty variable is an unset one."""
    given = {name.upper(): value for name, value in variables.items() if value}
    found = ((name, given.get(variable_of(name))) for name in field_names())
    return {name: value for name, value in found if value is not None}


def _variables_of(file: Path) -> dict[str, str | None]:
    if not file.is_file():
        return {}
    from dotenv import dotenv_values  # only where there is a file: each process would import it

    return dotenv_values(file, encoding="utf-8")


def variable_for_flows(name: str) -> str | None:
    """A variable of this process for a flow; None for settings of this server."""
    return None if is_setting(name) else os.environ.get(name)


def environment_for_children(*, also: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a process that needs no settings of this server: all other variables.

    `also`: names of settings that it gets nevertheless.
    """
    kept = {name.upper() for name in also}
    return {name: value for name, value in os.environ.items() if not is_setting(name) or name.upper() in kept}


def environment_with(settings: Mapping[str, object]) -> dict[str, str]:
    """The environment of this process with these settings, by field."""
    return dict(os.environ) | {variable_of(name): as_written(value) for name, value in settings.items()}


def own_language() -> Language | None:
    """The language of this process's locale; None if there is no catalogue for it."""
    return locale_language(os.environ)


def _refusal(refused: ValidationError) -> ConfigError:
    details = [_problem(str(error["loc"][-1]), error["input"], error["msg"]) for error in refused.errors()]
    return ConfigError(" ".join(problem["sentence"] for problem in details), details=details)


def _problem(name: str, value: object, problem: str) -> dict[str, str]:
    if name not in field_names():
        return {"field": name, "sentence": f"There is no setting {name!r}; correct its name or remove it."}
    sentence = f"{variable_of(name)} is {shown(name, value)}; write {allowed_for(name)}"
    example = as_written(default_of(name))
    sentence += f", for example {example}." if example else "."
    return {"field": name, "variable": variable_of(name), "sentence": sentence, "problem": problem}


def _broken_relations(c: Names) -> Iterator[str]:
    if c.ack_progress_interval_sec >= c.consumer_ack_wait_sec:
        yield _must("ack_progress_interval_sec", "be less than", "consumer_ack_wait_sec", c)
    if c.worker_lease_interval_sec >= c.worker_lease_sec:
        yield _must("worker_lease_interval_sec", "be less than", "worker_lease_sec", c)
    if 0 < c.worker_history_sec < c.worker_disconnect_timeout_sec:
        yield _must("worker_history_sec", "be 0 or at least", "worker_disconnect_timeout_sec", c)
    if c.params_max_bytes > c.commit_max_bytes:
        yield _must("params_max_bytes", "be at most", "commit_max_bytes", c)
    if bool(c.nats_tls_cert_file) != bool(c.nats_tls_key_file):
        yield "PYOCO_NATS_TLS_CERT_FILE and PYOCO_NATS_TLS_KEY_FILE go together; set both or neither."
    if bool(c.nats_user) != bool(c.nats_password):
        yield "PYOCO_NATS_USER and PYOCO_NATS_PASSWORD go together; set both or neither."
    if "jwt" in c.auth_methods and not c.jwt_jwks:
        yield "PYOCO_HTTP_AUTH_MODE names jwt, which needs keys to check tokens with; set PYOCO_JWT_JWKS."
    if c.recheck_executor == "airflow" and not c.airflow_url.startswith(("http://", "https://")):
        yield "PYOCO_RECHECK_EXECUTOR is airflow; write in PYOCO_AIRFLOW_URL where it is: http://host:8080."
    if bool(c.airflow_user) != bool(c.airflow_password):
        yield "PYOCO_AIRFLOW_USER and PYOCO_AIRFLOW_PASSWORD go together; set both or neither."
    yield from _name_collisions(c)


def _must(name: str, relation: str, other: str, c: Names) -> str:
    one, two = (f"{variable_of(n)} ({getattr(c, n)})" for n in (name, other))
    return f"{one} must {relation} {two}; change one of them."


def _name_collisions(c: Names) -> Iterator[str]:
    """Two resources with one name, or two streams with overlapping subjects, collide at the broker."""
    kv, stores = _named(c, "_kv_bucket"), _named(c, "_object_bucket", "_object_store_bucket")
    if len({*kv}) < len(kv) or len({*stores}) < len(stores):
        yield "Every bucket needs a name of its own; change one of the PYOCO_*_BUCKET settings."
    streams = _named(c, "_stream")
    if len({*streams}) < len(streams):
        yield "PYOCO_WORK_STREAM, PYOCO_DLQ_STREAM and what PYOCO_RUNS_KV_BUCKET names must differ."
    for one, two in permutations(_named(c, "_subject_prefix"), 2):
        if f"{one}.".startswith(f"{two}."):
            yield f"The subjects {one} and {two} overlap; change one of the PYOCO_*_SUBJECT_PREFIX settings."


def _named(c: Names, *endings: str) -> list[str]:
    """The values of all settings and derived names that end so."""
    return [getattr(c, name) for name in dir(c) if name.endswith(endings)]
