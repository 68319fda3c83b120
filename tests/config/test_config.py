"""Settings: defaults, the environment, the .env file, and how a wrong value is refused."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from pyoco_server import config as config_module
from pyoco_server.config import NatsBackendConfig, allowed_for, default_of, field_names, meaning_of
from pyoco_server.errors import ConfigError, Invalid

SPECIFIED: dict[str, Any] = {
    "nats_url": "nats://127.0.0.1:4222",
    "work_subject_prefix": "pyoco.work",
    "default_tag": "default",
    "runs_kv_bucket": "pyoco_runs",
    "workers_kv_bucket": "pyoco_workers",
    "http_auth_mode": "none",
    "http_api_key_header": "X-API-Key",
    "auth_kv_bucket": "pyoco_auth",
    "auth_pepper": None,
    "run_heartbeat_interval_sec": 1.0,
    "worker_heartbeat_interval_sec": 5.0,
    "workers_kv_ttl_sec": 15.0,
    "worker_disconnect_timeout_sec": 20.0,
    "cancel_grace_period_sec": 30.0,
    "consumer_ack_wait_sec": 30.0,
    "consumer_max_deliver": 20,
    "consumer_max_ack_pending": 200,
    "ack_progress_interval_sec": 10.0,
    "dlq_stream": "PYOCO_DLQ",
    "dlq_subject_prefix": "pyoco.dlq",
    "dlq_publish_execution_error": True,
    "dlq_max_age_sec": 604800,
    "dlq_max_msgs": 100000,
    "dlq_max_bytes": 536870912,
    "max_run_snapshot_bytes": 262144,
    "workflow_yaml_max_bytes": 262144,
    "wheel_object_store_bucket": "pyoco_wheels",
    "wheel_max_bytes": 536870912,
    "wheel_sync_enabled": False,
    "wheel_sync_dir": ".pyoco/wheels",
    "wheel_sync_interval_sec": 10.0,
    "wheel_install_timeout_sec": 180.0,
    "wheel_history_kv_bucket": "pyoco_wheel_history",
    "wheel_history_ttl_sec": 7776000,
    "dashboard_lang": "auto",
    "load_dotenv": True,
    "env_file": ".env",
    "log_level": "INFO",
    "log_format": "json",
    "log_utc": True,
    "log_include_traceback": True,
    "work_stream": "PYOCO_WORK",
    "consumer_prefix": "pyoco_workers",
}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in field_names():
        monkeypatch.delenv(config_module.variable_of(name), raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "default"), SPECIFIED.items())
def test_a_setting_of_the_specification_has_its_default(name: str, default: Any) -> None:
    assert getattr(NatsBackendConfig(), name) == default
    assert getattr(NatsBackendConfig.from_env(), name) == default


@pytest.mark.parametrize("name", field_names())
def test_every_setting_is_described_and_its_default_passes_its_own_check(name: str) -> None:
    assert meaning_of(name).endswith(".")
    assert allowed_for(name)
    assert getattr(NatsBackendConfig(**{name: default_of(name)}), name) == default_of(name)


@pytest.mark.parametrize(("written", "kept"), [("86400", True), ("86399", False), ("1", False), ("0", False)])
def test_keys_are_kept_for_a_day_at_least(monkeypatch: pytest.MonkeyPatch, written: str, kept: bool) -> None:
    monkeypatch.setenv("PYOCO_IDEMPOTENCY_TTL_SEC", written)
    if kept:
        assert NatsBackendConfig.from_env().idempotency_ttl_sec == 86_400
    else:
        with pytest.raises(ConfigError, match=r"PYOCO_IDEMPOTENCY_TTL_SEC .* 86400 \(24 hours\) or more"):
            NatsBackendConfig.from_env()


def test_the_constructor_does_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_DEFAULT_TAG", "other")
    assert NatsBackendConfig().default_tag == "default"
    assert NatsBackendConfig.from_env().default_tag == "other"


@pytest.mark.parametrize("written", [None, "", "# nothing\n", "PYOCO_NATS_URL=\n", "OTHER=1\n"])
def test_an_environment_that_says_nothing_gives_the_defaults(
    monkeypatch: pytest.MonkeyPatch, written: str | None
) -> None:
    for name in [name for name in os.environ if name.upper().startswith("PYOCO_")]:
        monkeypatch.delenv(name)
    if written is not None:
        Path(".env").write_text(written)
    assert NatsBackendConfig.from_env() == NatsBackendConfig()


def test_the_env_file_does_not_say_whether_it_is_read() -> None:
    Path(".env").write_text("PYOCO_LOAD_DOTENV=0\nPYOCO_ENV_FILE=missing.env\nPYOCO_HTTP_PORT=9000\n")
    settings = NatsBackendConfig.from_env()
    assert (settings.http_port, settings.load_dotenv, settings.env_file) == (9000, True, ".env")


def test_it_is_frozen_and_can_be_replaced() -> None:
    settings = NatsBackendConfig(default_tag="gpu")
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.default_tag = "cpu"  # type: ignore[misc]
    changed = dataclasses.replace(settings, http_port=0)
    assert (changed.default_tag, changed.http_port) == ("gpu", 0)
    with pytest.raises(ConfigError):
        dataclasses.replace(settings, http_port=-1)


def test_text_from_the_environment_becomes_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_CONSUMER_MAX_DELIVER", "7")
    monkeypatch.setenv("PYOCO_CONSUMER_ACK_WAIT_SEC", "60")
    monkeypatch.setenv("PYOCO_NATS_REPLICAS", "3")
    monkeypatch.setenv("PYOCO_LOG_LEVEL", "debug")
    settings = NatsBackendConfig.from_env()
    assert (settings.consumer_max_deliver, settings.consumer_ack_wait_sec) == (7, 60.0)
    assert (settings.nats_replicas, settings.log_level) == (3, "DEBUG")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", False),
        ("1", True),
        ("true", True),
        ("FALSE", False),
        ("yes", True),
        ("no", False),
        ("on", True),
        ("off", False),
    ],
)
def test_a_flag_can_be_written_in_several_ways(
    monkeypatch: pytest.MonkeyPatch, written: str, value: bool
) -> None:
    monkeypatch.setenv("PYOCO_WHEEL_SYNC_ENABLED", written)
    assert NatsBackendConfig.from_env().wheel_sync_enabled is value


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_HTTP_PORT", "")
    assert NatsBackendConfig.from_env().http_port == 8000


def test_the_env_file_is_read_and_the_real_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("PYOCO_HTTP_PORT=9000\nPYOCO_DEFAULT_TAG=file\nOTHER=1\nPYOCO_UNKNOWN=1\n")
    monkeypatch.setenv("PYOCO_DEFAULT_TAG", "real")
    settings = NatsBackendConfig.from_env()
    assert (settings.http_port, settings.default_tag) == (9000, "real")


def test_an_empty_variable_lets_the_env_file_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("PYOCO_HTTP_PORT=9000\n")
    monkeypatch.setenv("PYOCO_HTTP_PORT", "")
    assert NatsBackendConfig.from_env().http_port == 9000


def test_the_env_file_can_be_left_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("PYOCO_HTTP_PORT=9000\n")
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    assert NatsBackendConfig.from_env().http_port == 8000


def test_another_env_file_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("other.env").write_text("PYOCO_HTTP_PORT=9001\n")
    monkeypatch.setenv("PYOCO_ENV_FILE", "other.env")
    assert NatsBackendConfig.from_env().http_port == 9001


def test_a_named_env_file_that_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_ENV_FILE", "missing.env")
    with pytest.raises(ConfigError, match=r"PYOCO_ENV_FILE.*missing\.env"):
        NatsBackendConfig.from_env()


def test_an_env_file_that_is_not_text_is_refused() -> None:
    Path(".env").write_bytes(b"PYOCO_DEFAULT_TAG=\xff\xfe\n")
    with pytest.raises(ConfigError, match=r"\.env"):
        NatsBackendConfig.from_env()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumer_ack_wait_sec", "0"),
        ("consumer_ack_wait_sec", "soon"),
        ("consumer_ack_wait_sec", "nan"),
        ("consumer_ack_wait_sec", "inf"),
        ("consumer_max_deliver", "0"),
        ("consumer_max_deliver", "1.5"),
        ("worker_lease_sec", "1"),
        ("worker_concurrency", "-1"),
        ("http_port", "65536"),
        ("log_utc", "maybe"),
        ("log_level", "LOUD"),
        ("log_format", "xml"),
        ("durability", "never"),
        ("dashboard_lang", "fr"),
        ("http_auth_mode", "basic"),
        ("http_auth_mode", "none,jwt"),
        ("http_api_key_header", "X Key"),
        ("nats_replicas", "2"),
        ("nats_url", "http://host"),
        ("nats_url", "nats://a b"),
        ("nats_url", "nats://a,,nats://b"),
        ("default_tag", "a.b"),
        ("runs_kv_bucket", "a.b"),
        ("runs_kv_bucket", "a b"),
        ("work_stream", "A.B"),
        ("work_subject_prefix", "pyoco..work"),
        ("work_subject_prefix", "pyoco.>"),
        ("callable_allow", "my-package"),
    ],
)
def test_a_wrong_value_is_refused_with_its_variable_and_what_to_write(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    variable = config_module.variable_of(name)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as refused:
        NatsBackendConfig.from_settings(config_module.read_environment())
    assert isinstance(refused.value, Invalid)
    assert refused.value.message.startswith(f"{variable} is ")
    assert f"write {allowed_for(name)}" in refused.value.message
    assert isinstance(refused.value.details, list)
    assert refused.value.details[0]["variable"] == variable


def test_a_wrong_value_about_the_log_does_not_stop_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOG_LEVEL", "LOUD")
    monkeypatch.setenv("PYOCO_LOG_FORMAT", "text")
    config = NatsBackendConfig.from_env()
    assert (config.log_level, config.log_format) == ("INFO", "text")
    monkeypatch.setenv("PYOCO_HTTP_PORT", "many")
    with pytest.raises(ConfigError, match="PYOCO_HTTP_PORT"):
        NatsBackendConfig.from_env()


def test_every_wrong_value_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"PYOCO_HTTP_PORT.*PYOCO_LOG_UTC"):
        NatsBackendConfig(http_port=-1, log_utc="x")  # type: ignore[arg-type]


def test_an_unknown_keyword_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="'nats_uri'"):
        NatsBackendConfig(nats_uri="x")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ack_progress_interval_sec": 30.0}, "ACK_PROGRESS_INTERVAL_SEC.*less than.*CONSUMER_ACK_WAIT_SEC"),
        ({"consumer_ack_wait_sec": 5.0}, "ACK_PROGRESS_INTERVAL_SEC.*less than.*CONSUMER_ACK_WAIT_SEC"),
        ({"worker_lease_interval_sec": 5.0}, "WORKER_LEASE_INTERVAL_SEC.*less than.*WORKER_LEASE_SEC"),
        ({"worker_history_sec": 10.0}, "WORKER_HISTORY_SEC.*0 or at least.*WORKER_DISCONNECT_TIMEOUT_SEC"),
        ({"commit_max_bytes": 100_000}, "PARAMS_MAX_BYTES.*at most.*COMMIT_MAX_BYTES"),
        ({"nats_user": "u"}, "go together"),
        ({"nats_password": "p"}, "go together"),
        ({"dlq_stream": "PYOCO_WORK"}, "must differ"),
        ({"work_stream": "PYOCO_EVENTS"}, "must differ"),
        ({"auth_kv_bucket": "pyoco_runs"}, "name of its own"),
        ({"workers_kv_bucket": "pyoco_leases"}, "name of its own"),
        ({"workers_kv_bucket": "pyoco_schedules"}, "name of its own"),
        ({"wheel_object_store_bucket": "pyoco_results"}, "name of its own"),
        ({"dlq_subject_prefix": "pyoco.work.dead"}, "overlap"),
        ({"work_subject_prefix": "pyoco.events"}, "overlap"),
    ],
)
def test_settings_that_do_not_fit_each_other_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        NatsBackendConfig(**settings)


def test_prefixes_that_only_begin_alike_do_not_overlap() -> None:
    assert NatsBackendConfig(work_subject_prefix="pyoco.work", dlq_subject_prefix="pyoco.workdead")


@pytest.mark.parametrize(
    ("written", "mode", "methods"),
    [
        ("none", "none", set()),
        ("api_key", "api_key", {"api_key"}),
        ("JWT", "jwt", {"jwt"}),
        ("jwt, api_key", "api_key,jwt", {"api_key", "jwt"}),
    ],
)
def test_the_auth_mode_names_its_methods(written: Any, mode: str, methods: set[str]) -> None:
    settings = NatsBackendConfig(http_auth_mode=written, jwt_jwks="jwks.json")
    assert settings.http_auth_mode == mode
    assert settings.auth_methods == methods


def test_lists_are_joined_by_commas() -> None:
    settings = NatsBackendConfig(
        nats_url="nats://u:p@a:4222, tls://b:4223,[::1]:4222",
        allowed_hosts="a.example, b.example",
        callable_allow="my.tasks,other",
    )
    assert settings.nats_servers == ["nats://u:p@a:4222", "tls://b:4223", "[::1]:4222"]
    assert settings.allowed_host_names == ("a.example", "b.example")
    assert settings.callable_packages == ("my.tasks", "other")
    assert NatsBackendConfig().allowed_host_names == ()


@pytest.mark.parametrize(
    ("bucket", "base"),
    [("pyoco_runs", "pyoco"), ("dev-1_runs", "dev-1"), ("plain", "plain"), ("_runs", "_runs")],
)
def test_names_derive_from_the_runs_bucket(bucket: str, base: str) -> None:
    settings = NatsBackendConfig(runs_kv_bucket=bucket)
    assert settings.events_stream == f"{base.upper()}_EVENTS"
    assert settings.events_subject_prefix == f"{base}.events"
    assert settings.live_subject_prefix == f"{base}.live"
    assert settings.logs_stream == f"{base.upper()}_LOGS"
    assert settings.logs_subject_prefix == f"{base}.logs"
    assert settings.leases_kv_bucket == f"{base}_leases"
    assert settings.schedules_kv_bucket == f"{base}_schedules"
    assert settings.results_object_bucket == f"{base}_results"


def test_the_representation_shows_what_differs_and_no_secret() -> None:
    shown = repr(
        NatsBackendConfig(
            auth_pepper="pepper!", nats_user="me", nats_password="hush!", nats_url="nats://a:topsecret@h:1"
        )
    )
    assert "nats_url='nats://h:1'" in shown
    assert "nats_user='me'" in shown
    assert "http_port" not in shown
    assert not any(secret in shown for secret in ("pepper!", "hush!", "topsecret"))


def test_a_refusal_shows_no_secret() -> None:
    for settings in ({"auth_pepper": ["pepper!"]}, {"nats_url": "nats://a:pepper!@h h"}):
        with pytest.raises(ConfigError) as refused:
            NatsBackendConfig(**settings)
        assert "pepper!" not in f"{refused.value.message} {refused.value.details}"
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__
