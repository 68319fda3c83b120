"""The server's line per request must not say what is nobody's business: keys in paths, tickets in queries."""

from __future__ import annotations

import logging
import re

from pyoco_server.http_api.keyed import without_key

_TICKET = re.compile(r"(?<=[?&]ticket=)[^&\s]+")


class _WithoutKeys(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_harmless(arg) if isinstance(arg, str) else arg for arg in record.args)
        return True


_without_keys = _WithoutKeys()


def _harmless(text: str) -> str:
    return _TICKET.sub("hidden", without_key(text))


def hide_keys() -> None:
    """Callable twice: the filter is there once."""
    logging.getLogger("uvicorn.access").addFilter(_without_keys)
