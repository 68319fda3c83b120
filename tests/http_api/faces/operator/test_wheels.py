"""`/wheels`: REQ-0025. What is taken and what is not, to the status; both ways piece by piece."""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.faces.operator import upload
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.serving import expect_error, serving
from tests.http_api.tenants import as_tenants
from tests.store.fleet.wheel_making import file_name, wheel_bytes
from tests.worker.stage import config_on

NAME = file_name("demo", "1.0")
DEMO = wheel_bytes("demo", "1.0")
INVALID, VERSION, MISSING = "ERR-PYOCO-0002", "ERR-PYOCO-0022", "ERR-PYOCO-0023"
HISTORY_MEMBERS = [
    "event_id", "occurred_at", "action", "wheel_name", "tags", "size_bytes", "sha256_hex", "replace", "actor",
    "source",
]  # fmt: skip


async def brought(
    client: httpx.AsyncClient, name: str = NAME, data: bytes = DEMO, **form: str
) -> httpx.Response:
    return await client.post("/wheels", files={"wheel": (name, data)}, data=form)


async def brought_version(client: httpx.AsyncClient, version: str, package: str = "demo") -> httpx.Response:
    return await brought(client, file_name(package, version), wheel_bytes(package, version))


def part(name: str, data: bytes, *, filename: str | None = None) -> bytes:
    more = f'; filename="{filename}"' if filename is not None else ""
    return f'--B\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + data + b"\r\n"


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def names(client: httpx.AsyncClient) -> list[str]:
    return [wheel["name"] for wheel in (await client.get("/wheels")).json()]


async def test_there_are_no_wheels_yet(client: httpx.AsyncClient) -> None:
    for path in ("/wheels", "/wheels/history"):
        answer = await client.get(path)
        assert (answer.status_code, answer.content) == (200, b"[]")
    expect_error(await client.get(f"/wheels/{NAME}"), 404, MISSING)
    expect_error(await client.delete(f"/wheels/{NAME}"), 404, MISSING)


async def test_a_wheel_is_brought_listed_fetched_and_deleted(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    begun = time.time()
    answer = await brought(client, tags=" cpu, linux,,cpu")
    assert answer.status_code == 200, answer.text
    wheel = answer.json()
    assert begun - 1 <= wheel["modified"] <= time.time() + 1
    assert {name: wheel[name] for name in wheel if name not in ("nuid", "modified")} == {
        "name": NAME,
        "size_bytes": len(DEMO),
        "bucket": config.wheel_object_store_bucket,
        "sha256_hex": hashlib.sha256(DEMO).hexdigest(),
        "tags": ["cpu", "linux"],
        "package": "demo",
        "version": "1.0",
    }
    assert (await client.get("/wheels")).json() == [wheel]
    fetched = await client.get(f"/wheels/{NAME}")
    assert fetched.content == DEMO
    assert fetched.headers["content-type"] == "application/octet-stream"
    assert fetched.headers["content-disposition"] == f'attachment; filename="{NAME}"'
    assert fetched.headers["content-length"] == str(len(DEMO))
    deleted = await client.delete(f"/wheels/{NAME}")
    assert deleted.content == f'{{"name":"{NAME}","deleted":true}}'.encode()
    expect_error(await client.get(f"/wheels/{NAME}"), 404, MISSING)
    assert await names(client) == []


async def test_what_happened_is_remembered_with_who_and_where(client: httpx.AsyncClient) -> None:
    headers = {"X-Forwarded-For": "10.1.2.3", "X-Real-IP": "10.1.2.4", "User-Agent": "tests"}
    files = {"wheel": (NAME, DEMO)}
    await client.post("/wheels", files=files, data={"replace": "false", "tags": "cpu"}, headers=headers)
    await client.delete(f"/wheels/{NAME}")
    await brought_version(client, "1", "other")
    other, deleted, uploaded = (await client.get("/wheels/history")).json()
    assert list(uploaded) == HISTORY_MEMBERS
    assert (uploaded["action"], uploaded["wheel_name"], uploaded["replace"]) == ("upload", NAME, False)
    assert (uploaded["tags"], uploaded["size_bytes"]) == (["cpu"], len(DEMO))
    assert uploaded["actor"] == {"tenant_id": None, "api_key_id": None}
    assert uploaded["source"] == {
        "remote_addr": "127.0.0.1", "x_forwarded_for": "10.1.2.3", "x_real_ip": "10.1.2.4",
        "user_agent": "tests", "host": "127.0.0.1", "scheme": "http",
    }  # fmt: skip
    assert (deleted["action"], deleted["replace"], other["replace"]) == ("delete", None, True)

    async def events(query: str) -> list[str]:
        return [one["event_id"] for one in (await client.get(f"/wheels/history?{query}")).json()]

    assert await events("limit=1") == [other["event_id"]]
    assert await events(f"wheel_name={NAME}") == [deleted["event_id"], uploaded["event_id"]]
    assert await events("action=UPLOAD") == [other["event_id"], uploaded["event_id"]]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "action=look", "wheel_name=demo.zip", "wheel_name=../x.whl"]
)
async def test_a_history_query_that_makes_no_sense_is_422(client: httpx.AsyncClient, query: str) -> None:
    body = expect_error(await client.get(f"/wheels/history?{query}"), 422, INVALID)
    assert [one["loc"] for one in body["detail"]] == [["query", query.partition("=")[0]]]


@pytest.mark.parametrize("version", ["1.0", "0.9", "1.0rc1", "1.0.0", "0.99.post1", "1.0.dev1"])
async def test_the_same_or_an_older_version_is_409(client: httpx.AsyncClient, version: str) -> None:
    await brought(client)
    for replace in ("true", "false"):
        name, data = file_name("Demo", version), wheel_bytes("Demo", version)
        expect_error(await brought(client, name, data, replace=replace), 409, VERSION)
    assert await names(client) == [NAME]


async def test_a_newer_version_is_taken_beside_the_older(client: httpx.AsyncClient) -> None:
    for version in ("1.0", "1.0.post1", "1.1rc1", "1.1", "10"):
        assert (await brought_version(client, version)).status_code == 200
    assert len(await names(client)) == 5


async def test_of_two_uploads_at_once_the_rule_holds(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with serving(config) as other:
        same = await asyncio.gather(*(brought(one) for one in (client, other, client, other)))
        assert sorted(answer.status_code for answer in same) == [200, 409, 409, 409]
        await asyncio.gather(*(brought_version(one, f"2.{n}") for n, one in enumerate((client, other) * 3)))
    versions = [wheel["version"] for wheel in (await client.get("/wheels")).json()]
    history = [one["wheel_name"] for one in (await client.get("/wheels/history")).json()]
    assert "2.5" in versions
    assert [file_name("demo", version) for version in versions] == sorted(history)


JUNK: Mapping[str, tuple[str, bytes]] = {
    "no zip": (NAME, b"not a wheel at all"),
    "empty": (NAME, b""),
    "a cut zip": (NAME, DEMO[:-40]),
    "another package": (NAME, wheel_bytes("other", "1.0")),
    "another version": (NAME, wheel_bytes("demo", "1.1")),
    "no metadata": (NAME, wheel_bytes("demo", "1.0", leave_out={"METADATA"})),
    "no record": (NAME, wheel_bytes("demo", "1.0", leave_out={"RECORD"})),
    "no name": ("", DEMO),
    "no wheel by name": ("demo.zip", DEMO),
    "too few parts": ("demo-1.0.whl", DEMO),
    "no version": ("demo-one-py3-none-any.whl", DEMO),
    "a folder": (f"../{NAME}", DEMO),
    "a long name": (file_name("d" * 300, "1.0"), DEMO),
    "blanks": ("demo 1-1.0-py3-none-any.whl", DEMO),
    "not ascii": ("démo-1.0-py3-none-any.whl", DEMO),
}


@pytest.mark.parametrize(("name", "data"), JUNK.values(), ids=JUNK)
async def test_what_is_no_wheel_is_422(client: httpx.AsyncClient, name: str, data: bytes) -> None:
    body = expect_error(await brought(client, name, data), 422, INVALID)
    assert body["detail"][0]["loc"] == ["body", "wheel"]
    assert await names(client) == []
    assert (await client.get("/wheels/history")).json() == []


@pytest.mark.parametrize(
    "tags", ["a b", "a.b", "ü", "x" * 65, "a;b", "*", ",".join(f"t{n}" for n in range(65))]
)
async def test_odd_tags_are_422(client: httpx.AsyncClient, tags: str) -> None:
    body = expect_error(await brought(client, tags=tags), 422, INVALID)
    assert [one["loc"] for one in body["detail"]] == [["body", "tags"]]
    assert await names(client) == []


@pytest.mark.parametrize("replace", ["", "perhaps", "2", "null"])
async def test_an_odd_replace_is_422(client: httpx.AsyncClient, replace: str) -> None:
    expect_error(await brought(client, replace=replace), 422, INVALID)


FORM = part("tags", b"cpu") + part("wheel", DEMO, filename=NAME)
BROKEN: Mapping[str, tuple[str, bytes]] = {
    "no form": ("application/json", b"{}"),
    "no type": ("", FORM + b"--B--\r\n"),
    "no boundary": ("multipart/form-data", FORM + b"--B--\r\n"),
    "another boundary": ("multipart/form-data; boundary=X", FORM + b"--B--\r\n"),
    "empty": ("multipart/form-data; boundary=B", b""),
    "no end": ("multipart/form-data; boundary=B", FORM),
    "cut in the file": ("multipart/form-data; boundary=B", FORM[:-100]),
    "cut in a header": ("multipart/form-data; boundary=B", FORM[:20]),
    "no file": ("multipart/form-data; boundary=B", part("tags", b"cpu") + b"--B--\r\n"),
    "no file name": ("multipart/form-data; boundary=B", part("wheel", DEMO) + b"--B--\r\n"),
    "two files": ("multipart/form-data; boundary=B", FORM + FORM + b"--B--\r\n"),
    "many parts": ("multipart/form-data; boundary=B", part("x", b"") * 100 + FORM + b"--B--\r\n"),
    "a long field": ("multipart/form-data; boundary=B", part("tags", b"a," * 9000) + FORM + b"--B--\r\n"),
    "no text": ("multipart/form-data; boundary=B", part("tags", b"\xff") + FORM + b"--B--\r\n"),
    "nonsense": ("multipart/form-data; boundary=B", b"\x00" * 1000),
    "no disposition": ("multipart/form-data; boundary=B", b"--B\r\nX: y\r\n\r\n1\r\n--B--\r\n"),
}


@pytest.mark.parametrize(("kind", "body"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("step", [7, 100_000])
async def test_a_form_that_is_not_whole_is_422(
    client: httpx.AsyncClient, kind: str, body: bytes, step: int
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), step):
            yield body[start : start + step]

    answer = await client.post("/wheels", content=pieces(), headers={"Content-Type": kind})
    expect_error(answer, 422, INVALID)
    assert await names(client) == []


async def test_a_form_in_small_pieces_is_the_same_wheel(client: httpx.AsyncClient) -> None:
    body = part("unknown", b"x") + FORM + b"--B--\r\n"

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 3):
            yield body[start : start + 3]

    kind = {"Content-Type": "multipart/form-data; boundary=B"}
    answer = await client.post("/wheels", content=pieces(), headers=kind)
    assert answer.json()["tags"] == ["cpu"]
    assert (await client.get(f"/wheels/{NAME}")).content == DEMO


class Endless:
    """A body that says nothing of its size, and counts what was taken of it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield f'--B\r\nContent-Disposition: form-data; name="wheel"; filename="{NAME}"\r\n\r\n'.encode()
        for _ in range(self._count):
            self.taken += 1
            yield b"x" * 1000
        yield b"\r\n--B--\r\n"


async def test_a_wheel_over_the_limit_is_413_while_it_is_read(nats_server: NatsServer) -> None:
    async with serving(config_on(nats_server, wheel_max_bytes=20_000)) as client:
        body = Endless(100_000)
        kind = {"Content-Type": "multipart/form-data; boundary=B"}
        answer = await client.post("/wheels", content=aiter(body), headers=kind)
        assert "PYOCO_WHEEL_MAX_BYTES" in expect_error(answer, 413, INVALID)["detail"]
        assert body.taken <= 21
        big = await brought(client, data=b"x" * (20_000 + upload.AROUND_BYTES_MAX))
        expect_error(big, 413, INVALID)  # told by its Content-Length
        assert await names(client) == []
        assert (await brought(client)).status_code == 200


@pytest.mark.parametrize(
    ("files", "setting"),
    [
        ({"big.txt": "0" * 2_000_000}, "PYOCO_WHEEL_UNPACKED_MAX_BYTES"),
        ({f"f{number}.txt": "" for number in range(60)}, "PYOCO_WHEEL_UNPACKED_MAX_FILES"),
        ({"x" * 30_000 + str(number): "" for number in range(3)}, "PYOCO_WHEEL_UNPACKED_MAX_FILES"),
    ],
)
async def test_a_wheel_that_unpacks_to_more_than_the_limit_is_413(
    nats_server: NatsServer, files: dict[str, str], setting: str
) -> None:
    limits = {"wheel_unpacked_max_bytes": 1_000_000, "wheel_unpacked_max_files": 50}
    async with serving(config_on(nats_server, **limits)) as client:
        bomb = await brought(client, data=wheel_bytes("demo", "1.0", files))
        assert setting in expect_error(bomb, 413, INVALID)["detail"]
        assert await names(client) == []
        assert (await brought(client)).status_code == 200


async def test_a_wheel_may_be_larger_than_other_bodies(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And comes and goes in pieces: at no time is more of it held than a few of them."""
    held: list[int] = []

    class Watched(upload._Form):
        async def read(self, piece: bytes) -> None:
            await super().read(piece)
            held.append(len(self._pending))

    monkeypatch.setattr(upload, "_Form", Watched)
    # Compressed to half of that, which is still much more than is held at a time.
    text = random.Random(1).randbytes(8_000_000).hex()
    data = wheel_bytes("demo", "1.0", {"big.txt": text})
    size = len(data)
    async with serving(config_on(nats_server, http_max_body_bytes=1000)) as client:

        async def pieces() -> AsyncIterator[bytes]:
            body = FORM[: FORM.index(DEMO)] + data + b"\r\n--B--\r\n"
            for start in range(0, len(body), 65_536):
                yield body[start : start + 65_536]

        kind = {"Content-Type": "multipart/form-data; boundary=B"}
        answer = await client.post("/wheels", content=pieces(), headers=kind)
        assert answer.json()["size_bytes"] == size > 2 * upload.WRITE_BYTES
        assert max(held) < upload.WRITE_BYTES + 65_536
        fetched = await client.get(f"/wheels/{NAME}")
        assert hashlib.sha256(fetched.content).digest() == hashlib.sha256(data).digest()
        expect_error(await client.post("/runs", content=b" " * 2000), 413, INVALID)


async def test_nothing_is_left_of_an_upload(
    client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    await brought(client)
    await brought(client)  # refused
    await brought(client, "demo.zip")
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["demo.zip", "history.whl", "x" * 300, "..%2Fdemo-1.0-py3-none-any.whl", "*", "%00"]
)
async def test_what_cannot_be_a_wheel_is_not_there(client: httpx.AsyncClient, name: str) -> None:
    for answer in (await client.get(f"/wheels/{name}"), await client.delete(f"/wheels/{name}")):
        assert answer.status_code == 404
        assert answer.json().get("err_id") in (MISSING, None)  # a slash makes it another route


async def test_a_wheel_whose_bytes_are_lost_is_not_a_wheel(client: httpx.AsyncClient, store: Store) -> None:
    await brought(client)
    bucket = store.config.wheel_object_store_bucket
    await store.jetstream.api(f"STREAM.PURGE.OBJ_{bucket}", {"filter": f"$O.{bucket}.C.>"})
    expect_error(await client.get(f"/wheels/{NAME}"), 500, None)


@pytest.mark.parametrize(
    "changes", [{"http_host": "0.0.0.0"}, {"http_host": "10.0.0.5"}, {"http_host": "::"}]
)
async def test_without_authentication_only_loopback_may_change_wheels(
    nats_server: NatsServer, changes: dict[str, Any]
) -> None:
    async with serving(config_on(nats_server, **changes)) as client:
        for answer in (await brought(client), await client.delete(f"/wheels/{NAME}")):
            assert "wheels:write" in expect_error(answer, 403, None)["detail"]
        assert await names(client) == []
        assert (await client.get("/wheels/history")).status_code == 200


async def test_where_the_request_really_came_in_counts_too(nats_server: NatsServer) -> None:
    """`uvicorn --host 0.0.0.0` binds as it likes, whatever the configuration says."""
    config = config_on(nats_server, allowed_hosts="box.example")
    async with serving(config) as client:
        answer = await client.post("http://box.example/wheels", files={"wheel": (NAME, DEMO)})
        expect_error(answer, 403, None)
        assert (
            await client.post("http://localhost/wheels", files={"wheel": (NAME, DEMO)})
        ).status_code == 200


async def test_with_authentication_a_scope_is_needed(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", scopes=["ops:read", "runs:write"]) as (_, [client]):
        expect_error(await brought(client), 403, None)
        expect_error(await client.delete(f"/wheels/{NAME}"), 403, None)
        assert (await client.get("/wheels")).json() == []
    async with as_tenants(nats_server, "acme") as (_, [unscoped]):
        assert "wheels:write" in expect_error(await brought(unscoped), 403, None)["detail"]
        expect_error(await unscoped.delete(f"/wheels/{NAME}"), 403, None)
    for scope in ("wheels:write", "admin"):
        async with as_tenants(nats_server, "acme", scopes=[scope]) as (_, [client]):
            assert (await brought(client)).status_code == 200
            assert (await client.delete(f"/wheels/{NAME}")).status_code == 200


async def test_wheels_are_their_tenants(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "acme", "other", scopes=["ops:read", "wheels:write"]) as (_, both):
        acme, other = both
        assert (await brought(acme)).status_code == 200
        assert await names(other) == []
        expect_error(await other.get(f"/wheels/{NAME}"), 404, MISSING)
        expect_error(await other.delete(f"/wheels/{NAME}"), 404, MISSING)
        assert (await other.get("/wheels/history")).json() == []
        taken = expect_error(await brought_version(other, "2.0"), 409, VERSION)
        assert "acme" not in taken["detail"]  # a worker would use it for acme's runs
        assert (await brought_version(other, "1.0", "theirs")).status_code == 200
        assert await names(acme) == [NAME]
        [entry] = (await acme.get("/wheels/history")).json()
        assert entry["actor"]["tenant_id"] == "acme"
        assert entry["actor"]["api_key_id"]


async def test_without_a_broker_all_of_it_is_503(nats_server: NatsServer) -> None:
    async with serving(
        config_on(nats_server, nats_url="nats://127.0.0.1:1", start_wait_sec=0), wait_ready=False
    ) as client:
        for answer in (
            await client.get("/wheels"),
            await client.get("/wheels/history"),
            await client.get(f"/wheels/{NAME}"),
            await client.delete(f"/wheels/{NAME}"),
            await brought(client),
        ):
            expect_error(answer, 503, "ERR-PYOCO-0003")
