"""`/`, `/docs` and `/static/*`: dashboard and API reference, if they are built into the package.

`/openapi.json` and `/openapi.yaml`: the description of the API, derived from its operations.

Files below `/static` have a digest in their name and never change. The page itself is not cached: it contains
settings of the gateway for the dashboard.
"""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.config import NatsBackendConfig, own_language
from pyoco_server.errors import NotFound
from pyoco_server.http_api.context import gateway_of
from pyoco_server.http_api.error_answers import error_answer
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.document import YAML_TYPE, as_yaml
from pyoco_server.json_value import JsonObject
from pyoco_server.texts import choose_language

BUILT = Path(__file__).parent / "dashboard"
NOT_BUILT = (
    "The dashboard is not part of this build: install Node 20 or newer and run `make dashboard`. "
    "The API answers at /runs, its description at /openapi.json."
)

# Everything comes from this gateway; no inline script or style.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_ALWAYS = {"X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding, Accept-Language"}
_PAGE = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
# As in `index.html`; it is replaced by one with the settings of the gateway.
_BODY = "<body>"
_VERSION = version("pyoco-server")
# Not every system has a table with this type.
_KINDS = {".woff2": "font/woff2"}
_OPENING = '<html lang="en" data-lang="auto" data-auth="" data-key-header="X-API-Key">'


def is_built() -> bool:
    return (BUILT / "index.html").is_file()


async def index(request: Request) -> Response:
    if not is_built():
        return error_answer(request, NotFound(NOT_BUILT, err_id=""))
    page = _page(gateway_of(request).config, request.headers.get("accept-language"))
    return _answer(request, page.encode(), "text/html; charset=utf-8", _PAGE)


async def reference(request: Request) -> Response:
    """The API reference. Its scripts are files of this package too, so it has the same policy."""
    page = BUILT / "docs.html"
    if not page.is_file():
        return error_answer(request, NotFound(NOT_BUILT, err_id=""))
    return _answer(request, page.read_bytes(), "text/html; charset=utf-8", _PAGE)


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    path = _files().get(name)
    if path is None or not path.is_file():
        return error_answer(request, NotFound("There is no such file.", err_id=""))
    kind = _KINDS.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return _answer(request, path.read_bytes(), kind, _FOR_EVER)


async def openapi_json(request: Request) -> Response:
    return json_answer(_described(request))


async def openapi_yaml(request: Request) -> Response:
    # In a thread: it takes about 100 ms.
    body = await asyncio.to_thread(as_yaml, _described(request))
    return Response(body, media_type=YAML_TYPE)


ROUTES = [
    Route("/", index, methods=["GET"]),
    Route("/docs", reference, methods=["GET"]),
    Route("/static/{name}", static, methods=["GET"]),
    Route("/openapi.json", openapi_json, methods=["GET"]),
    Route("/openapi.yaml", openapi_yaml, methods=["GET"]),
]


def _described(request: Request) -> JsonObject:
    """Behind a proxy that strips a prefix, paths are below that prefix."""
    described: JsonObject = request.app.openapi()
    prefix = request.scope.get("root_path", "").rstrip("/")
    return described | {"servers": [{"url": prefix}]} if prefix else described


def _page(config: NatsBackendConfig, accept_language: str | None) -> str:
    page = (BUILT / "index.html").read_text(encoding="utf-8")
    language = config.dashboard_lang
    shown = own_language() or choose_language(accept_language) if language == "auto" else language
    methods = " ".join(sorted(config.auth_methods))
    opening = (
        f'<html lang="{shown}" data-lang="{language}" data-auth="{methods}" '
        f'data-key-header="{config.http_api_key_header}">'
    )
    return page.replace(_OPENING, opening, 1).replace(_BODY, f'<body data-version="{_VERSION}">', 1)


def _files() -> dict[str, Path]:
    """By name. A requested name is looked up here and never joined to a path."""
    return {path.name: path for path in (BUILT / "static").glob("*")}


def _answer(request: Request, body: bytes, kind: str, headers: dict[str, str]) -> Response:
    headers = _ALWAYS | headers
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(_zipped(body), 200, headers | {"Content-Encoding": "gzip"}, media_type=kind)
    return Response(body, 200, headers, media_type=kind)


@lru_cache(maxsize=64)
def _zipped(body: bytes) -> bytes:
    return gzip.compress(body, 9, mtime=0)
