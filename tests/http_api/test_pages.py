"""`/` and `/static`: what is built is served, hashed, cached and closed; what is not says how to get it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import httpx
import pytest

from pyoco_server.http_api import pages
from tests.conftest import NatsServer
from tests.http_api.serving import expect_error, serving
from tests.worker.stage import config_on

INDEX = (Path(__file__).parents[2] / "dashboard" / "index.html").read_text(encoding="utf-8")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As the build leaves it, in a folder of its own."""
    (tmp_path / "static").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "static" / "index-abc123.js").write_text("let page = 1\n" * 100)
    (tmp_path / "secret.txt").write_text("not below static")
    monkeypatch.setattr(pages, "BUILT", tmp_path)
    return tmp_path


async def test_the_page_is_closed_against_everything_from_elsewhere(
    client: httpx.AsyncClient, built: Path
) -> None:
    answer = await client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in answer.text
    assert not re.search(r"https?://", answer.text)


async def test_what_has_its_digest_in_its_name_is_kept_for_ever(
    client: httpx.AsyncClient, built: Path
) -> None:
    plain = await client.get("/static/index-abc123.js", headers={"Accept-Encoding": "identity"})
    assert plain.status_code == 200
    assert "immutable" in plain.headers["cache-control"]
    assert "javascript" in plain.headers["content-type"]
    zipped = await client.get("/static/index-abc123.js", headers={"Accept-Encoding": "gzip"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert int(zipped.headers["content-length"]) < len(plain.content) // 5
    assert zipped.content == plain.content
    assert gzip.decompress(gzip.compress(plain.content)) == plain.content


@pytest.mark.parametrize("name", ["../secret.txt", "%2e%2e%2fsecret.txt", "..%2Fsecret.txt", "none.js", ""])
async def test_nothing_else_can_be_asked_for(client: httpx.AsyncClient, built: Path, name: str) -> None:
    answer = await client.get(f"/static/{name}")
    assert answer.status_code == 404
    assert "not below" not in answer.text


async def test_without_a_build_the_page_says_how_to_get_one(
    client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "BUILT", tmp_path / "nowhere")
    body = expect_error(await client.get("/"), 404, None)
    assert "make dashboard" in body["detail"]
    assert (await client.get("/static/x.js")).status_code == 404


@pytest.mark.parametrize(
    ("setting", "accepts", "shown"),
    [("auto", "ja,en;q=0.5", "ja"), ("auto", "de", "en"), ("ja", "en", "ja"), ("en", "ja", "en")],
)
async def test_the_language_is_the_settings_or_the_browsers(
    nats_server: NatsServer,
    built: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    accepts: str,
    shown: str,
) -> None:
    monkeypatch.setattr(pages, "own_language", lambda: None)
    config = config_on(nats_server, dashboard_lang=setting, http_auth_mode="api_key")
    async with serving(config, wait_ready=False) as client:
        page = (await client.get("/", headers={"Accept-Language": accepts})).text
    assert (
        f'<html lang="{shown}" data-lang="{setting}" data-auth="api_key" data-key-header="X-API-Key">' in page
    )


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({"LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "ja_JP"}, "ja"),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": "en_GB"}, "en"),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": ""}, "ja"),
        ({"LANG": "C.UTF-8"}, "ja"),
        ({"LANG": "de_DE.UTF-8"}, "ja"),
        ({}, "ja"),
    ],
)
async def test_by_itself_it_is_that_of_the_servers_locale_and_else_the_browsers(
    client: httpx.AsyncClient,
    built: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    shown: str,
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    page = (await client.get("/", headers={"Accept-Language": "ja"})).text
    assert f'<html lang="{shown}" data-lang="auto"' in page


@pytest.mark.skipif(
    not (pages.BUILT / "index.html").is_file(), reason="the dashboard is not built: make dashboard"
)
async def test_what_was_built_is_small_whole_and_our_own(client: httpx.AsyncClient) -> None:
    page = (await client.get("/")).text
    scripts = [path for path in (pages.BUILT / "static").iterdir() if path.suffix == ".js"]
    own = [path for path in scripts if not path.name.startswith("docs-")]  # Swagger UI, loaded by /docs alone
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in own) < 350_000
    assert not re.search(r"static/docs-", page)
    named = re.findall(r'(?:src|href)="\./static/([^"]+)"', page)
    assert len(named) >= 3
    for name in named:
        assert (await client.get(f"/static/{name}")).status_code == 200
        assert re.search(r"-[\w-]{8}\.\w+$", name)


async def test_the_reference_has_the_policy_of_the_dashboard(client: httpx.AsyncClient, built: Path) -> None:
    (built / "docs.html").write_text("<!doctype html><title>reference</title>")
    answer, dashboard = await client.get("/docs"), await client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == dashboard.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-cache"
    assert (await client.get("/redoc")).status_code == 404


async def test_a_reference_that_is_not_built_says_how_to_get_it(
    client: httpx.AsyncClient, built: Path
) -> None:
    answer = await client.get("/docs")
    assert answer.status_code == 404
    assert "make dashboard" in answer.text
    assert "/openapi.json" in answer.text
