"""The wheel registry: what is taken, for whom, and that a package only ever goes up."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import zipfile
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path

import nats
import pytest
from nats.js.api import ObjectMeta
from packaging.version import Version

from pyoco_server.errors import Conflict, Invalid, NotFound, TooLarge
from pyoco_server.store.fleet.wheels import (
    Origin,
    Wheel,
    WheelAction,
    Wheels,
    check_content,
    check_tags,
    check_wheel_name,
    newest,
)
from pyoco_server.store.fleet.wheels.unpacked import UnpackedMax, check_directory
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.store.fleet.wheel_making import file_name, made, wheel_bytes
from tests.store.making import config_on

AT_MOST = UnpackedMax(bytes=2**20, files=100)


@pytest.fixture
def wheels(store: Store) -> Wheels:
    return store.wheels


async def test_a_wheel_is_listed_with_all_that_is_known(wheels: Wheels, tmp_path: Path) -> None:
    file = made(tmp_path, "Demo_Pkg", "1.0")
    put = await wheels.put("Demo_Pkg-1.0-py3-none-any.whl", file, tags=["gpu", "linux", "gpu"])
    assert await wheels.list() == [put] == [await wheels.get(put.name)]
    assert (put.package, put.version, put.tags) == ("demo-pkg", Version("1.0"), ("gpu", "linux"))
    data = file.read_bytes()
    assert (put.size, put.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert put.uploaded_at > 1_700_000_000
    assert b"".join([piece async for piece in wheels.stream(put.name)]) == data


async def test_upstream_reads_the_tags_of_ours_and_we_of_theirs(
    store: Store, wheels: Wheels, tmp_path: Path
) -> None:
    await wheels.put(file_name("ours", "1"), made(tmp_path, "ours", "1"), tags=["cpu", "linux"])
    connection = await nats.connect(store.config.nats_url)
    try:
        theirs = await connection.jetstream().object_store(wheels.bucket)
        info = await theirs.get_info(file_name("ours", "1"))
        assert info.headers is not None
        assert info.headers["x-pyoco-wheel-tags"] == "cpu,linux"
        meta = ObjectMeta(headers={"x-pyoco-wheel-tags": "gpu"})
        await theirs.put(file_name("theirs", "2"), b"any bytes", meta=meta)
    finally:
        await connection.close()
    assert [(wheel.name, wheel.tags) for wheel in await wheels.list()] == [
        (file_name("ours", "1"), ("cpu", "linux")),
        (file_name("theirs", "2"), ("gpu",)),
    ]


async def test_a_worker_gets_the_newest_of_its_tags(wheels: Wheels, tmp_path: Path) -> None:
    for package, version, tags in [
        ("a", "1.9", ["cpu"]),
        ("a", "1.10rc1", ["cpu"]),
        ("a", "1.10", ["cpu", "linux"]),
        ("b", "1", []),
        ("c", "1", ["gpu"]),
        ("a", "2", ["gpu"]),
    ]:
        await wheels.put(file_name(package, version), made(tmp_path, package, version), tags=tags)
    assert _names(await wheels.candidates(["cpu"])) == [file_name("a", "1.10"), file_name("b", "1")]
    assert _names(await wheels.candidates(["cpu", "gpu"])) == [
        file_name("a", "2"), file_name("b", "1"), file_name("c", "1"),
    ]  # fmt: skip
    assert _names(await wheels.candidates([])) == [file_name("b", "1")]


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "0.9", "1.0rc1"])
async def test_the_same_or_an_older_version_is_refused(wheels: Wheels, tmp_path: Path, version: str) -> None:
    await wheels.put(file_name("demo", "1.0"), made(tmp_path, "demo", "1.0"))
    with pytest.raises(Conflict) as refused:
        await wheels.put(file_name("demo", version), made(tmp_path, "demo", version, extra="other"))
    assert (refused.value.err_id, refused.value.msg_id) == ("ERR-PYOCO-0022", "MSG-PYOCO-0022")
    assert _names(await wheels.list()) == [file_name("demo", "1.0")]


async def test_a_deleted_version_may_come_back(wheels: Wheels, tmp_path: Path) -> None:
    name = file_name("demo", "1.0")
    first = await wheels.put(name, made(tmp_path, "demo", "1.0"))
    assert (await wheels.delete(name)).nuid == first.nuid
    assert await wheels.list() == []
    again = await wheels.put(name, made(tmp_path, "demo", "1.0"))
    assert again.nuid != first.nuid


async def test_of_two_uploads_of_one_version_at_once_one_wins(
    store: Store, other_store: Store, tmp_path: Path
) -> None:
    """Two file names, two gateways."""
    one = made(tmp_path, "demo", "1.0")
    other = made(tmp_path, "demo", "1.0", build="1")
    ends = await asyncio.gather(
        store.wheels.put(file_name("demo", "1.0"), one),
        other_store.wheels.put(file_name("demo", "1.0", build="1"), other),
        return_exceptions=True,
    )
    assert sorted(type(end).__name__ for end in ends) == ["Conflict", "Wheel"]
    assert len(await store.wheels.list()) == 1


async def test_many_versions_at_once_are_taken_in_rising_order_only(
    store: Store, other_store: Store, tmp_path: Path
) -> None:
    versions = [f"1.{number}" for number in range(8)]
    files = {version: made(tmp_path, "demo", version) for version in versions}
    stores = [store, other_store] * 4
    ends = await asyncio.gather(
        *(
            on.wheels.put(file_name("demo", version), files[version])
            for on, version in zip(stores, versions, strict=True)
        ),
        return_exceptions=True,
    )
    assert all(isinstance(end, Wheel | Conflict) for end in ends)
    by_time = sorted(await store.wheel_objects.list(), key=lambda info: info.revision)
    taken = [check_wheel_name(info.name).version for info in by_time]
    assert taken == sorted(taken)
    assert taken[-1] == Version("1.7")


async def test_what_is_not_there_is_not_found(wheels: Wheels, tmp_path: Path) -> None:
    name = file_name("demo", "1.0")
    for act in (wheels.get(name), wheels.delete(name), anext(wheels.stream(name))):
        with pytest.raises(NotFound) as refused:
            await act
        assert (refused.value.err_id, refused.value.msg_id) == ("ERR-PYOCO-0023", "MSG-PYOCO-0023")


async def test_a_download_is_of_the_wheel_that_was_listed(wheels: Wheels, tmp_path: Path) -> None:
    name = file_name("demo", "1.0")
    file = made(tmp_path, "demo", "1.0", extra="x" * 300_000)
    listed = await wheels.put(name, file)
    await wheels.download(listed, tmp_path / "out.whl")
    assert (tmp_path / "out.whl").read_bytes() == file.read_bytes()
    await wheels.delete(name)
    await wheels.put(name, file)
    with pytest.raises(NotFound):
        await wheels.download(listed, tmp_path / "out.whl")


async def test_a_wheel_over_the_limit_is_refused(small_store: Store, tmp_path: Path) -> None:
    with pytest.raises(TooLarge) as refused:
        await small_store.wheels.put(file_name("demo", "1"), made(tmp_path, "demo", "1", extra="x" * 2000))
    assert refused.value.err_id == "ERR-PYOCO-0002"


@pytest.fixture
async def small_store(nats_server: NatsServer) -> AsyncIterator[Store]:
    opened = await Store.connect(config_on(nats_server, wheel_max_bytes=100), name="small")
    yield opened
    await opened.close()


async def test_the_history_tells_who_did_what_latest_first(wheels: Wheels, tmp_path: Path) -> None:
    source = {"remote_addr": "10.0.0.1", "user_agent": "test"}
    origin = Origin(tenant_id="acme", api_key_id="k1", source=source)
    name = file_name("demo", "1.0")
    put = await wheels.put(name, made(tmp_path, "demo", "1.0"), tags=["cpu"], origin=origin, replace=True)
    await wheels.put(file_name("other", "1.0"), made(tmp_path, "other", "1.0"))
    await wheels.delete(name)
    entries = await wheels.history.list()
    assert [(entry.action, entry.wheel_name) for entry in entries] == [
        ("delete", name), ("upload", file_name("other", "1.0")), ("upload", name),
    ]  # fmt: skip
    first = entries[-1]
    assert (first.tags, first.size_bytes, first.sha256_hex, first.replace) == (
        ["cpu"], put.size, put.sha256, True,
    )  # fmt: skip
    assert first.actor == {"tenant_id": "acme", "api_key_id": "k1"}
    assert first.source == {
        "remote_addr": "10.0.0.1",
        "x_forwarded_for": None,
        "x_real_ip": None,
        "user_agent": "test",
        "host": None,
        "scheme": None,
    }
    assert [entry.action for entry in await wheels.history.list(wheel_name=name)] == ["delete", "upload"]
    assert len(await wheels.history.list(action=WheelAction.UPLOAD)) == 2
    assert await wheels.history.list(limit=1) == entries[:1]


async def test_the_history_is_kept_for_its_time(store: Store) -> None:
    bucket = store.config.wheel_history_kv_bucket
    info = await store.jetstream.api(f"STREAM.INFO.KV_{bucket}")
    assert info["config"]["max_age"] == 7_776_000 * 1_000_000_000


@pytest.mark.parametrize(
    "name",
    [
        "",
        "demo.whl",
        "demo-1.0.tar.gz",
        "../demo-1.0-py3-none-any.whl",
        "demo-x.y-py3-none-any.whl",
        "a/b.whl",
    ],
)
def test_a_name_that_is_no_wheels_is_refused(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_wheel_name(name)
    assert refused.value.err_id == "ERR-PYOCO-0002"


def test_tags_are_routing_tags() -> None:
    assert check_tags(["a", "b", "a"]) == ("a", "b")
    for wrong in (["a b"], ["a.b"], [""], [f"t{number}" for number in range(65)]):
        with pytest.raises(Invalid):
            check_tags(wrong)


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("zip", b"not a zip"),
        ("zip", b""),
        ("zip", wheel_bytes("demo", "1.0")[:-30]),
        ("dist-info", wheel_bytes("demo", "1.0", leave_out=["METADATA", "WHEEL", "RECORD"])),
        ("lacks demo-1.0.dist-info/METADATA", wheel_bytes("demo", "1.0", leave_out=["METADATA"])),
        ("lacks demo-1.0.dist-info/WHEEL", wheel_bytes("demo", "1.0", leave_out=["WHEEL"])),
        ("lacks demo-1.0.dist-info/RECORD", wheel_bytes("demo", "1.0", leave_out=["RECORD"])),
        ("package 'other'", wheel_bytes("other", "1.0")),
        ("version '1.1'", wheel_bytes("demo", "1.1")),
        ("version 'new'", wheel_bytes("demo", "new")),
    ],
)
def test_a_file_that_is_not_the_wheel_of_its_name_is_refused(what: str, data: bytes) -> None:
    with pytest.raises(Invalid, match=what):
        check_content("demo-1.0-py3-none-any.whl", BytesIO(data), AT_MOST)


@pytest.mark.parametrize("place", [0, 40, 200, -200, -60, -10])
def test_a_damaged_file_is_refused_or_still_that_wheel(place: int) -> None:
    data = bytearray(wheel_bytes("demo", "1.0"))
    data[place] ^= 0xFF
    with contextlib.suppress(Invalid):
        check_content("demo-1.0-py3-none-any.whl", BytesIO(bytes(data)), AT_MOST)


async def test_a_refused_file_leaves_nothing(store: Store, wheels: Wheels, tmp_path: Path) -> None:
    file = tmp_path / "x.whl"
    file.write_bytes(wheel_bytes("other", "1.0"))
    with pytest.raises(Invalid):
        await wheels.put(file_name("demo", "1.0"), file)
    assert await wheels.list() == []
    assert await wheels.history.list() == []


def test_the_newest_is_by_version_then_by_build() -> None:
    names = ["a-1.10-py3-none-any.whl", "a-1.9-py3-none-any.whl", "a-1.10-2-py3-none-any.whl"]
    [chosen] = newest(_wheel(name) for name in names)
    assert chosen.name == "a-1.10-2-py3-none-any.whl"


def test_the_wheels_of_these_tests_are_zip_files() -> None:
    with zipfile.ZipFile(BytesIO(wheel_bytes("demo", "1.0"))) as archive:
        assert archive.testzip() is None


def _wheel(name: str) -> Wheel:
    said = check_wheel_name(name)
    return Wheel(name, said.package, said.version, (), "N", 1, None, 0.0, said.build, said.fits)


def _names(wheels: object) -> list[str]:
    assert isinstance(wheels, list)
    return [wheel.name for wheel in wheels]


@pytest.mark.parametrize("name", ["RECORD", "entry_points.txt"])
def test_what_is_parsed_as_a_whole_is_small(name: str) -> None:
    """A line of RECORD takes 250 bytes in the memory of every worker, and a wheel has one for each file."""
    text = "".join(f"a{number}=b:c\n" for number in range(500_000))
    file = BytesIO(wheel_bytes("demo", "1.0", {f"demo-1.0.dist-info/{name}": text}, leave_out=[name]))
    with pytest.raises(TooLarge, match=f"has a {name} of more than"):
        check_directory(file, UnpackedMax(bytes=2**30, files=1_000))


def test_a_record_of_many_files_may_be_large() -> None:
    files = {f"demo_data/{'x' * 150}{number}.txt": "" for number in range(20_000)}
    check_directory(BytesIO(wheel_bytes("demo", "1.0", files)), UnpackedMax(bytes=2**30, files=30_000))
