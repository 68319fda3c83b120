"""docs/reference/bad-input.md, row by row: what is sent, and exactly what is answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.wheels import a_wheel

Send = Callable[[httpx.AsyncClient], Coroutine[Any, Any, httpx.Response]]

PAGE = Path(__file__).parents[2] / "docs/reference/bad-input.md"
JSON = {"Content-Type": "application/json"}
WHEEL, CONTENT = a_wheel("demo_pkg", "1.0")


def post(path: str, content: bytes | str = b"", **headers: str) -> Send:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return lambda client: client.post(path, content=data, headers=JSON | headers)


def run(**members: Any) -> Send:
    return post("/runs", json.dumps({"flow_name": "f"} | members))


def get(path: str) -> Send:
    return lambda client: client.get(path)


def wheel(name: str, content: bytes, **form: str) -> Send:
    return lambda client: client.post("/wheels", files={"wheel": (name, content)}, data=form)


def yaml(text: bytes, **form: str) -> Send:
    sent = {"workflow": ("flow.yaml", text, "application/yaml")}
    return lambda client: client.post("/runs/yaml", files=sent, data={"flow_name": "f"} | form)


def truncated_multipart(client: httpx.AsyncClient) -> Coroutine[Any, Any, httpx.Response]:
    body = b'--cut\r\nContent-Disposition: form-data; name="wheel"; filename="a.whl"\r\n\r\nhalf'
    headers = {"Content-Type": "multipart/form-data; boundary=cut"}
    return client.post("/wheels", content=body, headers=headers)


deep = "[" * 100 + "]" * 100
ROWS: dict[str, Send] = {
    "`POST /runs` with an empty body": post("/runs"),
    "… with text that is not JSON": post("/runs", "{not json"),
    "… with a list": post("/runs", "[]"),
    "… without `flow_name`": post("/runs", "{}"),
    "… with a number for `flow_name`": run(flow_name=7),
    "… with a blank `flow_name`": run(flow_name="  "),
    "… with a `flow_name` of 300 characters": run(flow_name="x" * 300),
    "… with a list for `params`": run(params=[1]),
    "… with NaN in `params`": post("/runs", '{"flow_name": "f", "params": {"a": NaN}}'),
    "… with `params` nested 100 deep": post("/runs", f'{{"flow_name": "f", "params": {{"a": {deep}}}}}'),
    "… with `params` of 1.5 MB": run(params={"a": "x" * 1_500_000}),
    "… with half a character": post("/runs", b'{"flow_name": "\xed\xa0\x80"}'),
    "… with a dot in `tag`": run(tag="a.b"),
    "… with `*` for `tag`": run(tag="*"),
    "… with 33 `tags`": run(tags=[str(number) for number in range(33)]),
    "… with a body of 9 MB": post("/runs", b" " * 9_000_000),
    "… with an empty `Idempotency-Key`": post("/runs", '{"flow_name": "f"}', **{"Idempotency-Key": ""}),
    "… with an `Idempotency-Key` of 256 characters": post(
        "/runs", '{"flow_name": "f"}', **{"Idempotency-Key": "k" * 256}
    ),
    "… with an `Idempotency-Key`, and a member twice": post(
        "/runs", '{"flow_name": "f", "flow_name": "f"}', **{"Idempotency-Key": "k"}
    ),
    "`GET /runs/{run_id}` with an invalid id": get("/runs/not-an-id"),
    "… with an unknown id": get("/runs/00000000-0000-4000-8000-000000000000"),
    "… with a wildcard": get("/runs/%3E"),
    "… with `include=everything`": get("/runs/00000000-0000-4000-8000-000000000000?include=everything"),
    "`GET /runs` with `limit=0`": get("/runs?limit=0"),
    "… with `limit=201`": get("/runs?limit=201"),
    "… with `status=DONE`": get("/runs?status=DONE"),
    "… with `updated_after=nan`": get("/runs?updated_after=nan"),
    "… with a made-up `cursor`": get("/runs?cursor=made-up"),
    "… with `sort=name`": get("/runs?sort=name"),
    "… with `sort=-updated` and `submitted_after`": get("/runs?sort=-updated&submitted_after=1"),
    "`POST /runs/yaml` with an unknown key": yaml(
        b"flow:\n  graph: a\n  colour: red\ntasks:\n  a: {use: b}\n"
    ),
    "… with a task that `tasks` does not have": yaml(b"flow:\n  graph: a\ntasks: {}\n"),
    "… with anchors and aliases": yaml(b"a: &a [1]\nb: [*a, *a]\n"),
    "… with a Python object": yaml(b"flow: !!python/object/apply:os.system ['true']\n"),
    "… with bytes that are not UTF-8": yaml(b"\xff\xfe\x00"),
    "`GET /workers` with `scope=some`": get("/workers?scope=some"),
    "`POST /wheels` with a file that is not a wheel": wheel(WHEEL, b"junk"),
    "… with an invalid name": wheel("demo.txt", CONTENT),
    "… whose content is another package": wheel("other_pkg-1.0-py3-none-any.whl", CONTENT),
    "… with a dot in its tags": wheel(WHEEL, CONTENT, tags="a.b"),
    "… cut off in the middle": truncated_multipart,
    "`GET /nowhere`": get("/nowhere"),
    "`PUT /runs`": lambda client: client.put("/runs", content=b"{}"),
}


def documented() -> dict[str, tuple[int, str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "---" not in line]
    rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:])
    return {what: (int(status), err_id.strip("`")) for what, status, err_id in rows}


def test_the_page_has_these_rows() -> None:
    assert list(documented()) == list(ROWS)


@pytest.mark.parametrize("what", ROWS)
async def test_bad_input_is_answered_as_documented(client: httpx.AsyncClient, what: str) -> None:
    answer = await ROWS[what](client)
    status, err_id = documented()[what]
    assert (answer.status_code, answer.json().get("err_id", "–")) == (status, err_id)
    assert answer.json()["detail"]
    assert (await client.get("/runs")).json() == [], "nothing was accepted"
