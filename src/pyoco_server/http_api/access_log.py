"""The server's line per request must not say what is nobody's business: keys in paths are hashed first."""

from __future__ import annotations

import logging

from pyoco_server.http_api.keyed import without_key


class _WithoutKeys(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(without_key(arg) if isinstance(arg, str) else arg for arg in record.args)
        return True


_without_keys = _WithoutKeys()


def hide_keys() -> None:
    """Callable twice: the filter is there once."""
    logging.getLogger("uvicorn.access").addFilter(_without_keys)
