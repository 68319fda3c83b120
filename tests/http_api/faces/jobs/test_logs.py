"""Logs of jobs over HTTP: pages with tokens, a file that grows, and never a byte twice or astray."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.logs.writer import LogLine
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.faces.jobs.test_jobs import created, ended, refused
from tests.http_api.serving import serving
from tests.http_api.tenants import as_tenants
from tests.log_writing import AT, Writer
from tests.worker.stage import Flows, one_task, working

LINES = {"Accept": "application/x-ndjson"}
TEXT = {"Accept": "text/plain"}


@pytest.fixture
async def job(client: httpx.AsyncClient) -> str:
    return str((await created(client))["id"])


@pytest.fixture
async def writer(store: Store, job: str) -> Writer:
    return Writer(store, job)


async def page_of(client: httpx.AsyncClient, job: str, **query: Any) -> dict[str, Any]:
    answer = await client.get(f"/jobs/{job}/logs", params=query)
    assert answer.status_code == 200, answer.text
    searched = ["searched"] if query.keys() & {"q", "task", "since"} else []
    assert list(answer.json()) == ["entries", "nextToken", "complete", "truncated", *searched]
    page: dict[str, Any] = answer.json()
    return page


def messages(page: dict[str, Any]) -> list[str]:
    return [entry["message"] for entry in page["entries"]]


async def test_an_empty_log_has_a_token_that_leads_to_what_comes(
    client: httpx.AsyncClient, job: str, writer: Writer
) -> None:
    empty = await page_of(client, job)
    assert empty == {"entries": [], "nextToken": empty["nextToken"], "complete": False, "truncated": False}
    assert (await page_of(client, job, sinceToken=empty["nextToken"])) == empty
    await writer.write("one", "two", task="a")
    page = await page_of(client, job, sinceToken=empty["nextToken"])
    assert page["entries"][0] == {
        "seq": 1,
        "timestamp": "2027-01-15T08:00:00.250000Z",
        "message": "one",
        "stream": "stdout",
        "task": "a",
        "attempt": 1,
    }
    assert (await page_of(client, job, sinceToken=page["nextToken"])) == page | {"entries": []}
    await writer.write("three")
    assert messages(await page_of(client, job, sinceToken=page["nextToken"])) == ["three"]


async def test_pages_of_any_size_give_every_line_once(
    client: httpx.AsyncClient, job: str, writer: Writer
) -> None:
    for number in range(10):
        await writer.write(*(f"{number}.{n}" for n in range(number + 1)))
    for limit in (1, 7, 10, 55, 5_000):
        seen: list[dict[str, Any]] = []
        page = await page_of(client, job, limit=limit)
        while page["entries"]:
            assert len(page["entries"]) == min(limit, 55 - len(seen))
            seen += page["entries"]
            page = await page_of(client, job, limit=limit, sinceToken=page["nextToken"])
        assert [entry["seq"] for entry in seen] == list(range(1, 56))
    assert (
        b"".join(json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in seen)
        == writer.written
    )


async def test_a_page_has_a_thousand_lines_unless_told_otherwise(
    client: httpx.AsyncClient, job: str, writer: Writer
) -> None:
    for start in range(0, 6_000, 1_500):
        await writer.write(*map(str, range(start, start + 1_500)))
    assert len((await page_of(client, job))["entries"]) == 1_000
    assert len((await page_of(client, job, limit=5_000))["entries"]) == 5_000
    assert messages(await page_of(client, job, tail=3)) == ["5997", "5998", "5999"]
    assert messages(await page_of(client, job, fromLine=3_001, limit=2)) == ["3000", "3001"]
    assert messages(await page_of(client, job, fromLine=9_999)) == []
    whole = await client.get(f"/jobs/{job}/logs", headers=LINES)
    assert whole.content == writer.written


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=5001", "limit=x", "limit=", "tail=0", "fromLine=0", "tail=1&fromLine=1", "q=",
        "regex=maybe", "q=(&regex=true", "since=yesterday", "q=" + "x" * 1_001, "limit=9999999999999999999",
    ],
)  # fmt: skip
async def test_pages_that_cannot_be_asked_for(client: httpx.AsyncClient, job: str, query: str) -> None:
    refused(await client.get(f"/jobs/{job}/logs?{query}"), 422, "INVALID_REQUEST")


async def test_a_token_is_good_for_its_own_log_only(client: httpx.AsyncClient, job: str) -> None:
    token = (await page_of(client, job))["nextToken"]
    other = (await created(client))["id"]
    listed = (await client.get("/jobs?limit=1")).json()["nextToken"]
    refused(await client.get(f"/jobs/{other}/logs?sinceToken={token}"), 400, "INVALID_TOKEN")
    for forged in ("", "x", token + "A", listed):
        refused(await client.get(f"/jobs/{job}/logs", params={"sinceToken": forged}), 400, "INVALID_TOKEN")


async def test_an_unknown_job_has_no_log(client: httpx.AsyncClient) -> None:
    for job_id in ("nobody", str(uuid.uuid4()), "*", "a.b"):
        for headers in ({}, LINES):
            refused(await client.get(f"/jobs/{job_id}/logs", headers=headers), 404, "JOB_NOT_FOUND")


async def test_a_finished_log_is_complete_at_its_last_page(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with working(config, Flows(main=one_task(lambda: None))) as worker:
        job = (await created(client))["id"]
        await worker.run_once(timeout=20.0)
        await ended(client, job)
        # The log was there before the end was written: nobody has to wait for it.
        first = await page_of(client, job, limit=1)
    assert not first["complete"]
    rest = await page_of(client, job, sinceToken=first["nextToken"])
    assert rest["complete"]
    assert (messages(first)[0][:16], messages(rest)[-1]) == ("attempt 1 begins", "run completed")
    assert (await page_of(client, job, sinceToken=rest["nextToken"]))["complete"]


async def test_a_job_cancelled_before_it_began_says_so(client: httpx.AsyncClient, job: str) -> None:
    await client.delete(f"/jobs/{job}")
    page = await page_of(client, job)
    assert [(entry["stream"], entry["message"]) for entry in page["entries"]] == [
        ("system", "cancel requested; no worker has the run")
    ]
    assert page["complete"]


async def test_conditions_and_headers_of_both_representations(
    client: httpx.AsyncClient, job: str, writer: Writer
) -> None:
    await writer.write("one", "zwei ü")
    for accept, kind in (
        ("*/*", "application/json"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("text/plain", "text/plain; charset=utf-8"),
    ):
        headers = {"Accept": accept, "Accept-Encoding": "gzip"}
        answer = await client.get(f"/jobs/{job}/logs", headers=headers)
        tag = answer.headers["etag"]
        assert tag[0] == tag[-1] == '"'
        fixed = {
            "cache-control": "no-cache",
            "vary": "Accept",
            "accept-ranges": "bytes",
            "content-type": kind,
        }
        assert fixed.items() <= dict(answer.headers).items()
        assert "content-encoding" not in answer.headers
        assert answer.headers["content-length"] == str(len(answer.content))
        head = await client.head(f"/jobs/{job}/logs", headers=headers)
        assert (head.status_code, head.content) == (200, b"")
        assert _but_id(head) == _but_id(answer)
        for known in (tag, f'"x", W/{tag}', "*"):
            same = await client.get(
                f"/jobs/{job}/logs", headers=headers | {"If-None-Match": known, "Range": "bytes=0-1"}
            )
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
            assert "content-type" not in same.headers
        other = await client.get(f"/jobs/{job}/logs", headers=headers | {"If-None-Match": '"x"'})
        assert other.status_code == 200
        await client.post(f"/jobs/{job}/tags", json={"tag": accept})
        assert (await client.head(f"/jobs/{job}/logs", headers=headers)).headers["etag"] == tag


async def test_a_tag_changes_with_the_log_and_with_nothing_else(
    client: httpx.AsyncClient, job: str, writer: Writer, config: NatsBackendConfig
) -> None:
    async with serving(config) as other:
        for accept in ("application/json", "application/x-ndjson", "text/plain"):
            seen = set()
            for _ in range(3):
                await writer.write("more")
                tags = {
                    (await one.get(f"/jobs/{job}/logs", headers={"Accept": accept})).headers["etag"]
                    for one in (client, other, client)
                }
                assert len(tags) == 1
                seen |= tags
            assert len(seen) == 3


async def test_parts_of_both_representations(client: httpx.AsyncClient, job: str, writer: Writer) -> None:
    for number in range(5):
        await writer.write(f"line {number} ü", f"more {number}")
    path = f"/jobs/{job}/logs"
    for headers in ({}, LINES, TEXT):
        whole = (await client.get(path, headers=headers)).content
        size = len(whole)
        for asked, start, stop in (
            ("0-", 0, size), ("0-0", 0, 1), ("7-59", 7, 60), (f"{size - 1}-", size - 1, size),
            ("-5", size - 5, size), ("3-9999999", 3, size), ("-9999999", 0, size),
        ):  # fmt: skip
            answer = await client.get(path, headers=headers | {"Range": f"bytes={asked}"})
            assert (answer.status_code, answer.content) == (206, whole[start:stop])
            assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
            assert answer.headers["content-length"] == str(stop - start)
            head = await client.head(path, headers=headers | {"Range": f"bytes={asked}"})
            assert (head.status_code, _but_id(head)) == (206, _but_id(answer))
        for asked in ("bytes=5-2", "bytes=0-1,4-5", "lines=0-1", "bytes=x"):
            answer = await client.get(path, headers=headers | {"Range": asked})
            assert (answer.status_code, answer.content) == (200, whole)
            assert "content-range" not in answer.headers
        for asked in (f"bytes={size}-", "bytes=-0"):
            answer = await client.get(path, headers=headers | {"Range": asked})
            refused(answer, 416, "REQUESTED_RANGE_NOT_SATISFIABLE")
            assert answer.headers["content-range"] == f"bytes */{size}"


async def test_a_part_is_given_only_of_what_the_caller_has(
    client: httpx.AsyncClient, job: str, writer: Writer
) -> None:
    await writer.write("one")
    path = f"/jobs/{job}/logs"
    tag = (await client.head(path, headers=LINES)).headers["etag"]
    part = LINES | {"Range": "bytes=2-5"}
    assert (await client.get(path, headers=part | {"If-Range": tag})).status_code == 206
    for other in (f"W/{tag}", '"x"', "Wed, 21 Oct 2015 07:28:00 GMT"):
        assert (await client.get(path, headers=part | {"If-Range": other})).content == writer.written
    await writer.write("two")
    whole = await client.get(path, headers=part | {"If-Range": tag})
    assert (whole.status_code, whole.content) == (200, writer.written)


async def test_the_file_only_grows_at_its_end(client: httpx.AsyncClient, job: str, writer: Writer) -> None:
    path = f"/jobs/{job}/logs"
    for headers in (LINES, TEXT):
        have = (await client.get(path, headers=headers)).content
        for number in range(4):
            nothing = await client.get(path, headers=headers | {"Range": f"bytes={len(have)}-"})
            assert (nothing.status_code, nothing.headers["content-range"]) == (416, f"bytes */{len(have)}")
            await writer.write(*(f"{number}.{n} é" for n in range(number + 1)))
            more = await client.get(path, headers=headers | {"Range": f"bytes={len(have)}-"})
            assert more.status_code == 206
            assert more.content.endswith(b"\n")
            have += more.content
        assert have == (writer.written if headers is LINES else writer.texts)


async def test_an_empty_file_can_be_had_whole_only(client: httpx.AsyncClient, job: str) -> None:
    for headers in (LINES, TEXT):
        whole = await client.get(f"/jobs/{job}/logs", headers=headers)
        assert (whole.status_code, whole.content, whole.headers["content-length"]) == (200, b"", "0")
        part = await client.get(f"/jobs/{job}/logs", headers=headers | {"Range": "bytes=0-"})
        assert (part.status_code, part.headers["content-range"]) == (416, "bytes */0")


async def test_what_retention_has_cut_is_said_and_never_mixed_up(
    client: httpx.AsyncClient, job: str, writer: Writer
) -> None:
    for number in range(6):
        await writer.write(f"a{number}", f"b{number}")
    old = await page_of(client, job, limit=1)
    recent = await page_of(client, job, limit=7)
    before = await client.get(f"/jobs/{job}/logs", headers=LINES)
    await writer.cut_front(2)
    for page in (await page_of(client, job), await page_of(client, job, sinceToken=old["nextToken"])):
        assert page["truncated"]
        assert [entry["seq"] for entry in page["entries"]] == list(range(5, 13))
    page = await page_of(client, job, sinceToken=recent["nextToken"])
    assert (page["truncated"], messages(page)) == (False, ["b3", "a4", "b4", "a5", "b5"])
    after = await client.get(f"/jobs/{job}/logs", headers=LINES)
    assert after.content == b"".join(writer.written.splitlines(keepends=True)[4:])
    assert after.headers["etag"] != before.headers["etag"]
    resumed = LINES | {"Range": f"bytes={len(before.content)}-", "If-Range": before.headers["etag"]}
    again = await client.get(f"/jobs/{job}/logs", headers=resumed)
    assert (again.status_code, again.content) == (200, after.content)
    await writer.cut_front(3)
    await writer.write("still counting")
    page = await page_of(client, job)
    assert [entry["seq"] for entry in page["entries"]] == [11, 12, 13]


async def test_lines_that_were_left_out_are_said_to_be_missing(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    few = replace(config, log_max_lines_per_run=10)

    def speak() -> None:
        for number in range(100):
            print("line", number)  # noqa: T201

    async with working(few, Flows(main=one_task(speak))) as worker:
        job = (await created(client))["id"]
        await worker.run_once(timeout=20.0)
        await ended(client, job)
    page = await page_of(client, job, limit=3)
    assert page["truncated"]
    everything = messages(await page_of(client, job))
    assert any("lines are left out here: a run keeps 10" in text for text in everything)
    assert everything[-1] == "run completed"


async def test_lines_are_searched_for_on_the_server(
    client: httpx.AsyncClient, job: str, writer: Writer
) -> None:
    for number in range(50):
        task = "odd" if number % 2 else "even"
        await writer.write(f'step {number} of "50"', f"done\t{number} ü", task=task)
    found = await page_of(client, job, q='3 of "')
    assert [(entry["seq"], entry["message"][:7]) for entry in found["entries"]] == [
        (7, "step 3 "), (27, "step 13"), (47, "step 23"), (67, "step 33"), (87, "step 43"),
    ]  # fmt: skip
    assert messages(await page_of(client, job, q="\t7 ü")) == ["done\t7 ü"]
    assert messages(await page_of(client, job, q=r"^step \d of", regex="true", limit=3)) == [
        'step 0 of "50"', 'step 1 of "50"', 'step 2 of "50"',
    ]  # fmt: skip
    assert messages(await page_of(client, job, q="stdout")) == []
    assert len((await page_of(client, job, task="odd"))["entries"]) == 50
    assert [entry["seq"] for entry in (await page_of(client, job, since=AT + 98))["entries"]] == [99, 100]
    assert len((await page_of(client, job, since="2027-01-15T08:01:38.250000Z"))["entries"]) == 2
    first = await page_of(client, job, q="done", limit=20)
    rest = await page_of(client, job, q="done", sinceToken=first["nextToken"])
    assert [entry["seq"] for entry in first["entries"] + rest["entries"]] == list(range(2, 101, 2))
    text = await client.get(f"/jobs/{job}/logs?q=13 of", headers=TEXT)
    assert (text.text, text.headers["x-next-token"]) == ('step 13 of "50"\n', rest["nextToken"])


async def test_a_pattern_that_would_never_end_does(
    client: httpx.AsyncClient, job: str, writer: Writer
) -> None:
    await writer.write("a" * 8_000 + "b")
    assert messages(await page_of(client, job, q="(a+)+$", regex="true")) == []


async def test_what_cannot_be_had_in_this_form(client: httpx.AsyncClient, job: str) -> None:
    answer = await client.get(f"/jobs/{job}/logs", headers={"Accept": "image/png"})
    refused(answer, 406, "NOT_ACCEPTABLE")


async def test_whatever_was_printed_comes_back(client: httpx.AsyncClient, job: str, writer: Writer) -> None:
    odd = ["", " ", "\t", "\x00\x1b[31m", "a\rb", "\u2028", '{"seq": 7}', "x" * 8_192, "🙂"]
    await writer.write_lines([LogLine(AT, "stderr", text, None, None, "ERROR") for text in odd])
    page = await page_of(client, job)
    assert messages(page) == odd
    assert page["entries"][0] == {
        "seq": 1, "timestamp": "2027-01-15T08:00:00.250000Z", "message": "", "stream": "stderr",
        "level": "ERROR",
    }  # fmt: skip
    assert (await client.get(f"/jobs/{job}/logs", headers=LINES)).content == writer.written


async def test_the_runs_face_has_the_same_log_in_its_own_words(
    client: httpx.AsyncClient, job: str, writer: Writer
) -> None:
    await writer.write("one", "two")
    page = (await client.get(f"/runs/{job}/logs?limit=1")).json()
    assert list(page) == ["entries", "next_token", "complete", "truncated"]
    rest = (await client.get(f"/runs/{job}/logs?since_token={page['next_token']}")).json()
    assert [entry["message"] for entry in page["entries"] + rest["entries"]] == ["one", "two"]
    assert (await client.get(f"/runs/{job}/logs", headers=LINES)).content == writer.written
    answer = await client.get(f"/runs/{job}/logs?since_token=x")
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert (await client.get("/runs/nobody/logs")).json()["err_id"] == "ERR-PYOCO-0005"


async def test_a_tenant_reads_its_own_logs_only(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "one", "two") as (_, (one, two)):
        job = (await created(one))["id"]
        assert (await one.get(f"/jobs/{job}/logs")).status_code == 200
        refused(await two.get(f"/jobs/{job}/logs"), 404, "JOB_NOT_FOUND")


def _but_id(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name != "x-request-id"}
