"""Decide what `pyoco-server up` starts, from its flags and the environment. Starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pyoco_server.cli.settings import Settings, config_of, read_settings, split_tags, text_on_a_terminal
from pyoco_server.cli.worker.main import DEMO_TAG, checked_worker_id, key_safe_hostname
from pyoco_server.config import NatsBackendConfig
from pyoco_server.logging_config import HTTP_SERVICE

NATS_PORT = 4222
READ_MODEL_NAME = "read_model.sqlite"
# Shorter than the drain of a worker that runs alone: Ctrl-C should be quick.
DRAIN_SEC = 2.0


class WorkerWishes(NamedTuple):
    """The flags of `up` for its worker."""

    wanted: bool | None
    tags: list[str] | None
    flow_resolver: str | None
    worker_id: str | None


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    worker_id: str
    tags: tuple[str, ...]
    flow_resolver: str | None  # None: the demo flows


@dataclass(frozen=True, slots=True)
class UpPlan:
    """`changed`: the settings that differ from the environment, for the worker's own process."""

    config: NatsBackendConfig
    changed: Settings
    embedded: bool
    broker_port: int
    broker_port_is_fixed: bool
    worker: WorkerPlan | None
    ignored_tags: tuple[str, ...]


def plan_up(flags: Mapping[str, object], wishes: WorkerWishes, *, embedded: bool) -> UpPlan:
    settings = read_settings(HTTP_SERVICE, **flags)
    named_url = settings.get("nats_url")
    embedded = embedded or named_url is None
    changed = {name: value for name, value in flags.items() if value is not None}
    changed |= _quiet_on_a_terminal(settings)
    changed |= {} if "drain_timeout_sec" in settings else {"drain_timeout_sec": DRAIN_SEC}
    if embedded:
        changed |= _in_the_data_folder(config_of(settings | changed), settings)
    config = config_of(settings | changed)
    return UpPlan(
        config=config,
        changed=changed,
        embedded=embedded,
        broker_port=(urlsplit(config.nats_servers[0]).port or NATS_PORT) if named_url else NATS_PORT,
        broker_port_is_fixed=named_url is not None,
        worker=_worker(config, wishes) if _wants_worker(wishes, embedded) else None,
        ignored_tags=() if wishes.flow_resolver else tuple(split_tags(wishes.tags)),
    )


def _quiet_on_a_terminal(settings: Settings) -> Settings:
    """Warnings only, as text: on a terminal the start screen must stay visible."""
    if not sys.stdout.isatty():
        return {}
    return text_on_a_terminal(settings) | ({} if "log_level" in settings else {"log_level": "WARNING"})


def _in_the_data_folder(config: NatsBackendConfig, settings: Settings) -> dict[str, object]:
    folder = Path(config.data_dir).resolve()
    read_model = settings.get("read_model_path") or str(folder / READ_MODEL_NAME)
    return {"data_dir": str(folder), "read_model_path": read_model}


def _wants_worker(wishes: WorkerWishes, embedded: bool) -> bool:
    return embedded if wishes.wanted is None else wishes.wanted


def _worker(config: NatsBackendConfig, wishes: WorkerWishes) -> WorkerPlan:
    # The same name after a restart: its lost runs are then handed back at once.
    worker_id = checked_worker_id(wishes.worker_id or f"{key_safe_hostname()}-up-{config.http_port}")
    if wishes.flow_resolver is None:
        return WorkerPlan(worker_id, (DEMO_TAG,), None)
    tags = dict.fromkeys([config.default_tag, *split_tags(wishes.tags)])
    return WorkerPlan(worker_id, tuple(tags), wishes.flow_resolver)
