"""A broker that asks who is there: what it asks for, where that is kept, and that strangers stay outside."""

import json
import stat
import subprocess
from pathlib import Path

import nats
import pytest
from nats.errors import Error as NatsError

from pyoco_server.broker import BrokerCredentials, EmbeddedBroker, find_nats_server, kept_credentials
from pyoco_server.broker.credentials import FILE_NAME
from pyoco_server.broker.server_conf import server_conf
from pyoco_server.broker.server_log import parse_line


def broker_in(folder: Path, port: int, **wishes: object) -> EmbeddedBroker:
    return EmbeddedBroker(data_dir=folder, preferred_port=port, asks_for_credentials=True, **wishes)  # type: ignore[arg-type]


async def comes_in(url: str, credentials: BrokerCredentials | None) -> bool:
    named = {"user": credentials.user, "password": credentials.password} if credentials else {}
    try:
        client = await nats.connect(url, allow_reconnect=False, max_reconnect_attempts=0, **named)
    except NatsError:
        return False
    await client.close()
    return True


def _files_with(folder: Path, secret: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


async def test_strangers_stay_outside(tmp_path: Path, free_port: int) -> None:
    async with broker_in(tmp_path, free_port) as broker:
        assert broker.credentials is not None
        assert await comes_in(broker.url, broker.credentials)
        assert not await comes_in(broker.url, None)
        assert not await comes_in(broker.url, broker.credentials._replace(password="wrong"))


async def test_they_are_in_files_that_only_their_owner_reads(tmp_path: Path, free_port: int) -> None:
    async with broker_in(tmp_path, free_port) as broker:
        assert broker.credentials is not None
        assert kept_credentials(tmp_path) == broker.credentials
        secret = broker.credentials.password
        holding = _files_with(tmp_path, secret)
        assert {path.name for path in holding} == {FILE_NAME, "nats-server.conf"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}
        assert secret not in (tmp_path / "broker.json").read_text()


async def test_they_are_kept_over_restarts_and_given_ones_win(tmp_path: Path, free_port: int) -> None:
    async with broker_in(tmp_path, free_port) as broker:
        first = broker.credentials
    async with broker_in(tmp_path, free_port) as broker:
        assert broker.credentials == first
    given = BrokerCredentials("me", 'my "pass" \\word$HOME')
    async with broker_in(tmp_path, free_port, credentials=given) as broker:
        assert broker.credentials == given == kept_credentials(tmp_path)
        assert await comes_in(broker.url, given)
        assert not await comes_in(broker.url, first)


async def test_a_broker_that_does_not_ask_lets_in_whoever_brings_some(tmp_path: Path, free_port: int) -> None:
    """So that authentication can be switched off again without cleaning up."""
    async with EmbeddedBroker(data_dir=tmp_path, preferred_port=free_port) as broker:
        assert broker.credentials is None
        assert await comes_in(broker.url, BrokerCredentials("pyoco", "whatever"))
        assert await comes_in(broker.url, None)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"user": 1, "password": "x"}', '{"user": "x"}'])
def test_a_file_that_is_none_of_ours_is_no_credentials(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    assert kept_credentials(tmp_path) is None
    assert kept_credentials(tmp_path / "nowhere") is None


def test_a_real_server_accepts_any_password(tmp_path: Path) -> None:
    conf = tmp_path / "nats.conf"
    conf.write_text(
        server_conf(
            server_name="x",
            host="127.0.0.1",
            port=4999,
            store_dir=tmp_path,
            durability="always",
            credentials=BrokerCredentials("ユーザ", 'quo"te back\\slash #;{} $HOME'),
        )
    )
    checked = subprocess.run([str(find_nats_server()), "-t", "-c", str(conf)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_the_warning_about_the_password_in_its_file_is_expected() -> None:
    line = "[1] 2026/01/01 00:00:00.000000 [WRN] Plaintext passwords detected, use nkeys or bcrypt"
    assert parse_line(line)[0] == 10


async def test_the_record_of_the_folder_is_json_as_before(tmp_path: Path, free_port: int) -> None:
    async with broker_in(tmp_path, free_port) as broker:
        assert json.loads((tmp_path / "broker.json").read_text())["url"] == broker.url
