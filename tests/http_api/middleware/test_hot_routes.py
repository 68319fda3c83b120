"""Hot routes read a query as Starlette does, and keep only short ones in memory."""

from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.types import Message

from pyoco_server.http_api.middleware import hot_routes
from pyoco_server.http_api.middleware.hot_routes import SHORT_QUERY_BYTES


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


@pytest.mark.parametrize(
    "query",
    [b"", b"wait=60", b"include=a&include=b", b"q=%C3%A9+x", b"a=", b"=", b"&&", b"wait=1&" + b"x" * 100],
)
def test_a_query_is_read_as_by_the_framework(query: bytes) -> None:
    scope = {"type": "http", "headers": [], "query_string": query}
    expected = Request(scope).query_params
    for _ in range(2):
        found = hot_routes._Request(dict(scope), _no_body).query_params
        assert found == expected
        assert found.multi_items() == expected.multi_items()


def test_a_long_query_is_not_kept() -> None:
    hot_routes._short_query.cache_clear()
    for length in (SHORT_QUERY_BYTES, SHORT_QUERY_BYTES + 1):
        scope = {"type": "http", "headers": [], "query_string": b"q" * length}
        assert hot_routes._Request(scope, _no_body).query_params
    assert hot_routes._short_query.cache_info().currsize == 1
