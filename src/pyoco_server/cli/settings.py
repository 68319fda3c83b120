"""Settings of a command: its flags, then the environment, then the defaults. Read once, here."""

from __future__ import annotations

import sys
from pathlib import Path

from pyoco_server.broker import kept_credentials, recorded_broker_url
from pyoco_server.cli.entry import WrongArguments
from pyoco_server.config import NatsBackendConfig, as_written, default_of, read_environment, variable_of
from pyoco_server.errors import ConfigError, Invalid
from pyoco_server.logging_config import ADMIN_SERVICE, configure_logging, report_wrong_settings
from pyoco_server.names import check_routing_tag

Settings = dict[str, object]

# Flags with another name than their setting.
FLAGS = {"http_host": "host", "http_port": "port", "worker_concurrency": "concurrency"}


def read_settings(service: str = ADMIN_SERVICE, /, **flags: object) -> Settings:
    """By field; a flag that is None was not given.

    Flags are checked here, as arguments. A wrong log setting of the environment is reported and left out; all
    other settings of the environment are checked when they are used.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    for name, value in given.items():
        _check_flag(name, value)
    environment = {name: value for name, value in read_environment().items() if name not in given}
    return {**report_wrong_settings(service, environment), **given}


def _check_flag(name: str, value: object) -> None:
    try:
        NatsBackendConfig.from_settings({name: value})
    except ConfigError as wrong:
        variable, flag = variable_of(name), f"--{FLAGS.get(name, name).replace('_', '-')}"
        raise WrongArguments(
            wrong.message.replace(variable, flag, 1), hint=f"{flag} {as_written(default_of(name))}"
        ) from None


def config_of(settings: Settings) -> NatsBackendConfig:
    return NatsBackendConfig.from_settings(settings)


def config_near_broker(settings: Settings) -> NatsBackendConfig:
    """For commands that use a broker: the given one, else the embedded one of the data folder."""
    folder = Path(str(settings.get("data_dir", default_of("data_dir"))))
    recorded = recorded_broker_url(folder)
    if recorded is not None:
        settings = {"nats_url": recorded} | settings
        if settings["nats_url"] == recorded:
            settings = _with_credentials(settings, folder)
    return config_of(settings)


def _with_credentials(settings: Settings, folder: Path) -> Settings:
    """The credentials of the folder's broker, if it requires any. Given credentials take precedence."""
    kept = kept_credentials(folder)
    if kept is None or any(name in settings for name in ("nats_user", "nats_password", "nats_creds_file")):
        return settings
    return settings | {"nats_user": kept.user, "nats_password": kept.password}


def text_on_a_terminal(settings: Settings) -> Settings:
    """The log as lines for people where people read it, unless a setting says otherwise."""
    is_chosen = "log_format" in settings or not sys.stdout.isatty()
    return {} if is_chosen else {"log_format": "text"}


def write_logs(service: str, config: NatsBackendConfig) -> None:
    configure_logging(
        service,
        level=config.log_level,
        fmt=config.log_format,
        utc=config.log_utc,
        include_traceback=config.log_include_traceback,
        with_structlog=False,  # our programs do not use it, and flows run in other processes
    )


def split_tags(given: list[str] | None) -> list[str]:
    """`--tags a,b --tags c` is a, b, c."""
    parts = [part.strip() for text in given or [] for part in text.split(",")]
    try:
        return [check_routing_tag(part) for part in dict.fromkeys(parts) if part]
    except Invalid as wrong:
        raise WrongArguments(wrong.message, hint="--tags default,gpu") from wrong
