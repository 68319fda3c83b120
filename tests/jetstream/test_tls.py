"""A broker that speaks TLS and asks for our certificate."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from pyoco_server.broker import find_nats_server
from pyoco_server.errors import ConfigError
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for, free_port, until


class _Encrypted(NatsServer):
    def __init__(self, folder: Path, port: int, conf: str) -> None:
        super().__init__(folder, port)
        self.url = f"tls://localhost:{port}"
        (folder / "conf").write_text(conf)

    def start(self) -> None:
        command = [str(find_nats_server()), "-c", str(self._folder / "conf"), "-l", str(self._folder / "log")]
        self._process = subprocess.Popen(command)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def broker(tmp_path: Path, authority: trustme.CA) -> Iterator[NatsServer]:
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(str(tmp_path / "server.key"))
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(str(tmp_path / "server.pem"), append=True)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    port = free_port()
    conf = f"""
        listen: 127.0.0.1:{port}
        jetstream {{ store_dir: "{tmp_path}/js" }}
        tls {{ cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/server.key",
               ca_file: "{tmp_path}/ca.pem", verify: true }}
    """
    server = _Encrypted(tmp_path, port, conf)
    server.start()
    yield server
    server.stop()


async def test_both_sides_show_their_certificate(
    broker: NatsServer, authority: trustme.CA, tmp_path: Path
) -> None:
    ours = authority.issue_cert("worker@example.org")
    ours.private_key_pem.write_to_path(str(tmp_path / "our.key"))
    ours.cert_chain_pems[0].write_to_path(str(tmp_path / "our.pem"))
    config = config_for(
        broker,
        nats_tls_ca_file=str(tmp_path / "ca.pem"),
        nats_tls_cert_file=str(tmp_path / "our.pem"),
        nats_tls_key_file=str(tmp_path / "our.key"),
    )
    store = await Store.connect(config, name="test")
    assert store.is_connected
    assert (await store.jetstream.api(f"STREAM.INFO.{config.events_stream}"))["config"]["name"]
    await store.close()


async def test_a_broker_of_another_authority_is_not_believed(broker: NatsServer, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    store = Store(config_for(broker, nats_tls_ca_file=str(other)), name="test")
    opening = asyncio.create_task(store.open())
    await until(lambda: "certificate" in (store.why_not_ready or "").lower())
    assert not store.is_connected
    opening.cancel()
    await asyncio.wait([opening])
    await store.close()


async def test_a_missing_file_is_named(broker: NatsServer, tmp_path: Path) -> None:
    config = config_for(broker, nats_tls_ca_file=str(tmp_path / "nowhere.pem"))
    with pytest.raises(ConfigError, match="PYOCO_NATS_TLS_CA_FILE"):
        await Store.connect(config, name="test")
