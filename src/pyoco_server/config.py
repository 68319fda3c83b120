"""Every setting: its name, unit, default, bounds and meaning. Read once, checked once, passed on.

`NatsBackendConfig(...)` takes keywords and never looks at the environment; `NatsBackendConfig.from_env()`
reads `PYOCO_<FIELD>` and the .env file. Nobody else reads the environment. docs/configuration.md is
generated from here: the kind of a setting says what may be written, its sentence what it is for.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, create_model, model_validator
from pydantic.dataclasses import dataclass
from pydantic_settings import BaseSettings, SettingsConfigDict

from pyoco_server.errors import ConfigError
from pyoco_server.tags import ROUTING_TAG_PATTERN

ENV_PREFIX = "PYOCO_"
SECRETS = frozenset({"auth_pepper", "nats_password"})
MAX_SEC = 10 * 365 * 86_400.0
MAX_COUNT = 2**53
MAX_MESSAGE_BYTES = 64 * 2**20  # the most a nats-server can be told to accept


@dataclasses.dataclass(frozen=True, slots=True)
class Allowed:
    """What may be written, in words: for the documentation and for the refusal of anything else."""

    words: str


def _plain(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _capital(value: Any) -> Any:
    return value.strip().upper() if isinstance(value, str) else value


def _number(value: Any) -> Any:
    """The environment knows only text, and a closed set of numbers takes none."""
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def _methods(value: Any) -> Any:
    """`jwt, api_key` means what `api_key,jwt` means."""
    return ",".join(sorted({_plain(part) for part in value.split(",")})) if isinstance(value, str) else value


def _text(pattern: str) -> Any:
    return Field(pattern=f"^(?:{pattern})$")


_TOKEN = r"[A-Za-z0-9_-]+"
_SERVER = r"((nats|tls|ws|wss)://)?([^\s,/@]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?"
_MODULE = r"[A-Za-z_][A-Za-z0-9_.]*"

Seconds = Annotated[float, Field(gt=0, le=MAX_SEC), Allowed("seconds, above 0")]
Wait = Annotated[float, Field(ge=0, le=MAX_SEC), Allowed("seconds, 0 or more")]
Lease = Annotated[float, Field(gt=1, le=MAX_SEC), Allowed("seconds, above 1")]
Bytes = Annotated[int, Field(ge=1, le=MAX_COUNT), Allowed("bytes, 1 or more")]
Message = Annotated[int, Field(ge=1024, le=MAX_MESSAGE_BYTES), Allowed("bytes, 1024 to 67108864")]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT), Allowed("a whole number, 1 or more")]
Slots = Annotated[int, Field(ge=0, le=1024), Allowed("0 to 1024; 0 means one per core")]
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
Header = Annotated[str, _text(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"), Allowed("the name of a header")]
Packages = Annotated[
    str, _text(rf"\s*({_MODULE}(\s*,\s*{_MODULE})*\s*)?"), Allowed("packages joined by commas, or empty")
]
FilePath = Annotated[str, Field(min_length=1), Allowed("a path")]
Secret = Annotated[str | None, Allowed("text, or empty")]
Text = Annotated[str, Allowed("text, or empty")]
Replicas = Annotated[Literal[1, 3, 5], BeforeValidator(_number)]
Durability = Annotated[Literal["always", "interval"], BeforeValidator(_plain)]
AuthMode = Annotated[Literal["none", "api_key", "jwt", "api_key,jwt"], BeforeValidator(_methods)]
Language = Annotated[Literal["auto", "ja", "en"], BeforeValidator(_plain)]
LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"], BeforeValidator(_capital)
]
LogFormat = Annotated[Literal["json", "text"], BeforeValidator(_plain)]


def opt(default: Any, meaning: str) -> Any:
    """One option of the table below."""
    return Field(default=default, description=meaning)


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class NatsBackendConfig:
    """Where the broker is, what things are called there, and every limit and interval."""

    # The broker
    nats_url: Servers = opt("nats://127.0.0.1:4222", "Where the NATS servers are.")
    nats_creds_file: Text = opt("", "Path of a credentials file for the broker.")
    nats_user: Text = opt("", "User at the broker; needs a password beside it.")
    nats_password: Text = opt("", "Password at the broker. A secret.")
    nats_replicas: Replicas = opt(1, "Copies of every stream and bucket; more than 1 needs a cluster.")
    broker_timeout_sec: Seconds = opt(2.0, "How long one request to the broker may take.")
    data_dir: FilePath = opt(".pyoco/data", "Folder of the embedded broker: store, address, credentials.")
    durability: Durability = opt("always", "When the embedded broker syncs: always, or at an interval.")

    # Names at the broker
    work_stream: Name = opt("PYOCO_WORK", "Stream of the work queue.")
    work_subject_prefix: Subject = opt("pyoco.work", "Jobs are published as `<prefix>.<tag>`.")
    consumer_prefix: Name = opt("pyoco_workers", "The durable consumer of a tag is `<prefix>_<tag>`.")
    default_tag: Tag = opt("default", "Routing tag of a run submitted without one.")
    runs_kv_bucket: Name = opt("pyoco_runs", "Bucket of the snapshots; logs and results are named after it.")
    workers_kv_bucket: Name = opt("pyoco_workers", "Bucket of the worker registry.")
    auth_kv_bucket: Name = opt("pyoco_auth", "Bucket of the API keys.")

    # The queue
    consumer_ack_wait_sec: Seconds = opt(30.0, "A delivery silent for this long is delivered again.")
    consumer_max_deliver: Count = opt(20, "A run that loses its worker this often ends FAILED.")
    consumer_max_ack_pending: Count = opt(200, "Deliveries of one tag that may be in work at once.")
    ack_progress_interval_sec: Seconds = opt(10.0, "How often a worker says it is still at it.")
    owed_job_after_sec: Seconds = opt(60.0, "A run that misses its job for this long gets a new one.")

    # Dead letters
    dlq_stream: Name = opt("PYOCO_DLQ", "Stream of the dead letters.")
    dlq_subject_prefix: Subject = opt("pyoco.dlq", "Dead letters are published below this subject.")
    dlq_publish_execution_error: Flag = opt(True, "Whether a failed flow leaves a dead letter.")
    dlq_max_age_sec: Seconds = opt(604_800.0, "Dead letters are kept this long.")
    dlq_max_msgs: Count = opt(100_000, "Dead letters kept at most; the oldest go first.")
    dlq_max_bytes: Bytes = opt(536_870_912, "Size of all dead letters at most; the oldest go first.")

    # Workers
    worker_concurrency: Slots = opt(0, "Runs that one worker executes at once.")
    run_heartbeat_interval_sec: Seconds = opt(1.0, "How often a running run's `heartbeat_at` is renewed.")
    worker_heartbeat_interval_sec: Seconds = opt(5.0, "How often a worker renews its registry entry.")
    workers_kv_ttl_sec: Seconds = opt(15.0, "Kept for compatibility; the disconnect timeout decides.")
    worker_disconnect_timeout_sec: Seconds = opt(20.0, "A worker silent this long reads DISCONNECTED.")
    worker_lease_sec: Lease = opt(5.0, "A worker whose lease stood still this long loses its runs.")
    worker_lease_interval_sec: Seconds = opt(1.0, "How often a worker renews its lease; below the lease.")
    max_crashes: Count = opt(3, "A run that kills its slot this often ends FAILED.")
    cancel_grace_period_sec: Wait = opt(30.0, "How long a cancelled run may take to stop by itself.")
    drain_timeout_sec: Wait = opt(30.0, "How long a worker told to stop may finish before it hands back.")
    housekeeping_interval_sec: Seconds = opt(1.0, "How often we look for what time alone makes due.")
    callable_allow: Packages = opt("", "Packages that `callable:` in a flow.yaml may name.")

    # Sizes
    params_max_bytes: Bytes = opt(196_608, "Largest parameters of a run; at most a commit.")
    commit_max_bytes: Message = opt(524_288, "Largest message of the event log; the broker must accept it.")
    max_run_snapshot_bytes: Bytes = opt(262_144, "Largest snapshot; beyond it task records are left out.")
    workflow_yaml_max_bytes: Bytes = opt(262_144, "Largest flow.yaml.")

    # HTTP
    http_host: Host = opt("127.0.0.1", "Address the gateway listens on.")
    http_port: Port = opt(8000, "Port the gateway listens on.")
    http_max_body_bytes: Bytes = opt(8_388_608, "Largest request body; wheels have their own limit.")
    allowed_hosts: Hosts = opt("", "Hosts accepted besides loopback while authentication is off.")
    http_auth_mode: AuthMode = opt("none", "How callers prove who they are.")
    http_api_key_header: Header = opt("X-API-Key", "Header that carries the API key.")
    auth_pepper: Secret = opt(None, "Mixed into API key hashes. A secret; changing it ends every key.")
    read_model_path: Text = opt("", "File of the gateway's disposable index of runs; empty means memory.")
    list_wait_sec: Wait = opt(5.0, "How long a list waits for the index to catch up.")
    dashboard_lang: Language = opt("auto", "Language of the dashboard; `auto` follows the browser.")

    # Wheels
    wheel_object_store_bucket: Name = opt("pyoco_wheels", "Object store of the wheels.")
    wheel_max_bytes: Bytes = opt(536_870_912, "Largest wheel.")
    wheel_sync_enabled: Flag = opt(False, "Whether workers install the wheels of their tags.")
    wheel_sync_dir: FilePath = opt(".pyoco/wheels", "Folder into which a worker installs wheels.")
    wheel_sync_interval_sec: Seconds = opt(10.0, "How often a worker looks for wheels.")
    wheel_install_timeout_sec: Seconds = opt(180.0, "How long installing one wheel may take.")
    wheel_history_kv_bucket: Name = opt("pyoco_wheel_history", "Bucket of what happened to wheels.")
    wheel_history_ttl_sec: Seconds = opt(7_776_000.0, "That history is kept this long.")

    # Logging
    log_level: LogLevel = opt("INFO", "Least severe level that is written.")
    log_format: LogFormat = opt("json", "One JSON object per line, or lines for people.")
    log_utc: Flag = opt(True, "Times in UTC; otherwise in local time with its offset.")
    log_include_traceback: Flag = opt(True, "Whether errors carry their traceback.")

    # The .env file; these two are read from the real environment only
    load_dotenv: Flag = opt(True, "Whether the .env file is read.")
    env_file: FilePath = opt(".env", "Path of the .env file; one named here must exist.")

    @classmethod
    def from_env(cls) -> Self:
        """Settings from `PYOCO_*` and the .env file; the real environment wins, empty means unset."""
        return cls(**read_environment())

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_in_words(cls, value: Any, handler: Any) -> Any:
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
        changed = (f"{name}={_shown(name, value)}" for name, value in values if value != default_of(name))
        return f"NatsBackendConfig({', '.join(changed)})"

    @property
    def nats_servers(self) -> list[str]:
        return list(_items(self.nats_url))

    @property
    def auth_methods(self) -> frozenset[str]:
        """Empty when authentication is off."""
        return frozenset(_items(self.http_auth_mode)) - {"none"}

    @property
    def allowed_host_names(self) -> tuple[str, ...]:
        return _items(self.allowed_hosts)

    @property
    def callable_packages(self) -> tuple[str, ...]:
        return _items(self.callable_allow)

    # Names that the contract does not give derive from the runs bucket, so that two environments on one
    # broker do not meet.

    @property
    def events_stream(self) -> str:
        return f"{self._environment.upper()}_EVENTS"

    @property
    def events_subject_prefix(self) -> str:
        return f"{self._environment}.events"

    @property
    def live_subject_prefix(self) -> str:
        return f"{self._environment}.live"

    @property
    def logs_stream(self) -> str:
        return f"{self._environment.upper()}_LOGS"

    @property
    def logs_subject_prefix(self) -> str:
        return f"{self._environment}.logs"

    @property
    def leases_kv_bucket(self) -> str:
        return f"{self._environment}_leases"

    @property
    def results_object_bucket(self) -> str:
        return f"{self._environment}_results"

    @property
    def _environment(self) -> str:
        return self.runs_kv_bucket.removesuffix("_runs") or self.runs_kv_bucket


def read_environment() -> dict[str, Any]:
    """What `PYOCO_*` and the .env file say, by field and unchecked; a field nobody set is missing."""
    real = _environment_model()(_env_file=None).model_dump(exclude_none=True)
    switches = NatsBackendConfig(**{name: real[name] for name in ("load_dotenv", "env_file") if name in real})
    if not switches.load_dotenv:
        return real
    file = Path(switches.env_file)
    if "env_file" in real and not file.exists():
        raise ConfigError(f"PYOCO_ENV_FILE names {str(file)!r}, which does not exist; name a file that does.")
    try:
        return _environment_model()(_env_file=file).model_dump(exclude_none=True)
    except (OSError, UnicodeDecodeError) as unreadable:
        raise ConfigError(
            f"{str(file)!r} cannot be read as UTF-8 text ({unreadable}); correct it."
        ) from unreadable


def field_names() -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(NatsBackendConfig))


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


def as_written(value: Any) -> str:
    """A value the way it stands in the environment."""
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None else str(value)


def without_credentials(url: str) -> str:
    return re.sub(r"[^\s,/@]+@", "", url)


def _field(name: str) -> Any:
    return vars(NatsBackendConfig)["__pydantic_fields__"][name]


@cache
def _environment_model() -> type[BaseSettings]:
    """Every setting as text: pydantic-settings only fetches, the checks above are the only ones."""
    fields: dict[str, Any] = dict.fromkeys(field_names(), (str | None, None))
    return create_model("PyocoEnvironment", __base__=_FetchedText, **fields)


class _FetchedText(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_ignore_empty=True, extra="ignore")


def _refusal(refused: ValidationError) -> ConfigError:
    details = [_problem(str(error["loc"][-1]), error["input"], error["msg"]) for error in refused.errors()]
    return ConfigError(" ".join(problem["sentence"] for problem in details), details=details)


def _problem(name: str, value: Any, problem: str) -> dict[str, str]:
    if name not in field_names():
        return {"field": name, "sentence": f"There is no setting {name!r}; correct its name or remove it."}
    sentence = f"{variable_of(name)} is {_shown(name, value)}; write {allowed_for(name)}"
    example = as_written(default_of(name))
    sentence += f", for example {example}." if example else "."
    return {"field": name, "variable": variable_of(name), "sentence": sentence, "problem": problem}


def _broken_relations(c: NatsBackendConfig) -> Iterator[str]:
    if c.ack_progress_interval_sec >= c.consumer_ack_wait_sec:
        yield _must("ack_progress_interval_sec", "be less than", "consumer_ack_wait_sec", c)
    if c.worker_lease_interval_sec >= c.worker_lease_sec:
        yield _must("worker_lease_interval_sec", "be less than", "worker_lease_sec", c)
    if c.params_max_bytes > c.commit_max_bytes:
        yield _must("params_max_bytes", "be at most", "commit_max_bytes", c)
    if bool(c.nats_user) != bool(c.nats_password):
        yield "PYOCO_NATS_USER and PYOCO_NATS_PASSWORD go together; set both or neither."
    yield from _names_that_meet(c)


def _must(name: str, relation: str, other: str, c: NatsBackendConfig) -> str:
    one, two = (f"{variable_of(n)} ({getattr(c, n)})" for n in (name, other))
    return f"{one} must {relation} {two}; change one of them."


def _names_that_meet(c: NatsBackendConfig) -> Iterator[str]:
    """Two things of one name, or two streams with overlapping subjects, are one thing to the broker."""
    kv = [getattr(c, name) for name in field_names() if name.endswith("_kv_bucket")] + [c.leases_kv_bucket]
    stores = [c.wheel_object_store_bucket, c.results_object_bucket]
    if len({*kv}) < len(kv) or len({*stores}) < len(stores):
        yield "Every bucket needs a name of its own; change one of the PYOCO_*_BUCKET settings."
    if len({c.work_stream, c.dlq_stream, c.events_stream, c.logs_stream}) < 4:
        yield "PYOCO_WORK_STREAM, PYOCO_DLQ_STREAM and what PYOCO_RUNS_KV_BUCKET names must differ."
    subjects = [c.work_subject_prefix, c.dlq_subject_prefix, c.events_subject_prefix]
    subjects += [c.live_subject_prefix, c.logs_subject_prefix]
    for one, two in permutations(subjects, 2):
        if f"{one}.".startswith(f"{two}."):
            yield f"The subjects {one} and {two} overlap; change one of the PYOCO_*_SUBJECT_PREFIX settings."


def _items(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _shown(name: str, value: Any) -> str:
    """A value as people may see it: no secret, no password inside an address."""
    if name in SECRETS:
        return "'***'"
    return repr(without_credentials(value)) if name == "nats_url" and isinstance(value, str) else repr(value)
