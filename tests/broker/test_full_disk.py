"""A disk that was full: the server goes on refusing writes when there is space again, so it is restarted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import nats
import pytest
from nats.errors import Error as NatsError
from nats.js import JetStreamContext

from tests.small_disk import MIB, SmallDisk, small_disk

if TYPE_CHECKING:
    from tests.broker.conftest import Eventually, MakeBroker

MESSAGE_BYTES = 100_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small", 64 * MIB) as made:
        yield made


async def is_stored(jetstream: JetStreamContext) -> bool:
    try:
        await jetstream.publish("kept.x", os.urandom(MESSAGE_BYTES), timeout=0.5)
    except (NatsError, TimeoutError):
        return False
    return True


async def publish_until_full(jetstream: JetStreamContext) -> int:
    stored = 0
    while await is_stored(jetstream):
        stored += 1
    return stored


async def test_writes_are_accepted_again_once_there_is_space(
    make_broker: MakeBroker, disk: SmallDisk, eventually: Eventually
) -> None:
    broker = make_broker(data_dir=disk.path / "data", durability="interval")
    await broker.start()
    connection = await nats.connect(broker.url)
    jetstream = connection.jetstream()
    await jetstream.add_stream(name="KEPT", subjects=["kept.*"])
    disk.fill(2 * MIB)
    stored = await publish_until_full(jetstream)
    await eventually(lambda: broker.why_not is not None)
    assert "no space left on device" in str(broker.why_not)
    assert broker.restarts == 0  # as long as there is no space, a restart does not help

    disk.make_room()
    async with asyncio.timeout(20):
        while not await is_stored(jetstream):
            pass
    assert broker.restarts == 1
    assert broker.why_not is None
    # Nothing that was acknowledged is lost; what the client sent again after the restart comes on top.
    assert (await jetstream.stream_info("KEPT")).state.messages > stored
    await connection.close()


async def test_the_whole_disk_may_be_used_and_not_three_quarters_of_it(
    make_broker: MakeBroker, disk: SmallDisk
) -> None:
    broker = make_broker(data_dir=disk.path / "data", durability="interval")
    await broker.start()
    connection = await nats.connect(broker.url)
    jetstream = connection.jetstream()
    await jetstream.add_stream(name="KEPT", subjects=["kept.*"])
    most = (64 - 8) * MIB // MESSAGE_BYTES
    for _ in range(most):
        await jetstream.publish("kept.x", os.urandom(MESSAGE_BYTES))
    assert broker.disk is not None
    assert 0 < broker.disk.free_bytes < 16 * MIB
    assert broker.disk.total_bytes == 64 * MIB
    await connection.close()
