"""The configuration file's text, and that a real server accepts it."""

import subprocess
from pathlib import Path

import pytest

from pyoco_server.broker import Durability, EmbeddedBroker, find_nats_server
from pyoco_server.broker.server_conf import server_conf


def conf_for(store_dir: Path, durability: Durability = "always", host: str = "127.0.0.1") -> str:
    return server_conf(
        server_name="pyoco-test", host=host, port=4999, store_dir=store_dir, durability=durability
    )


def test_the_configuration_is_exactly_this(tmp_path: Path) -> None:
    assert conf_for(Path("/data/jetstream")) == (
        "# Written by pyoco-server at every start: edits are lost.\n"
        'server_name: "pyoco-test"\n'
        'listen: "127.0.0.1:4999"\n'
        "max_payload: 1MB\n"
        "jetstream {\n"
        '  store_dir: "/data/jetstream"\n'
        "  sync_interval: always\n"
        "}\n"
    )


@pytest.mark.parametrize(("durability", "sync"), [("always", "always"), ("interval", '"100ms"')])
def test_durability_decides_how_often_the_store_is_synced(durability: Durability, sync: str) -> None:
    assert f"  sync_interval: {sync}\n" in conf_for(Path("/data"), durability)


@pytest.mark.parametrize("name", ["plain", "with space", 'quo"te', "back\\slash", "データ", "$HOME", "#x;{}"])
@pytest.mark.parametrize("durability", ["always", "interval"])
def test_a_real_server_accepts_it_wherever_the_store_is(
    tmp_path: Path, name: str, durability: Durability
) -> None:
    conf = tmp_path / "test.conf"
    conf.write_text(conf_for(tmp_path / name, durability))
    check = subprocess.run(
        [find_nats_server(), "-t", "-c", conf], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr


def test_an_ipv6_loopback_is_written_in_brackets() -> None:
    assert 'listen: "[::1]:4999"' in conf_for(Path("/data"), host="::1")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_a_broker_without_passwords_is_kept_off_the_network(tmp_path: Path, host: str) -> None:
    with pytest.raises(ValueError, match="loopback only"):
        EmbeddedBroker(data_dir=tmp_path, host=host)
