"""Removes secrets from the log lines of the HTTP server: in paths, queries and headers.

At DEBUG uvicorn logs every header of a WebSocket handshake, and at INFO the address with its query. Its line
about bytes that are not HTTP gets the id of the error. Its lines about refused sockets are left out, so that
a client without a key cannot fill the log.
"""

from __future__ import annotations

import logging
import re

from pyoco_server.errors import message_id_of
from pyoco_server.http_api.middleware.redaction import HIDDEN
from pyoco_server.http_api.requests.idempotency import without_key

LOGGERS = ("uvicorn.access", "uvicorn.error")
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie"})
# Any value may be a ticket, a token, a signature or a search text.
_VALUE = re.compile(r"(?<==)[^&\s]+")
# Lines of uvicorn and its library about a refused handshake. The refusal log has one, with a rate limit.
_REFUSED_SOCKET = (
    '%s - "WebSocket %s" %d',
    '%s - "WebSocket %s" 403',
    "connection rejected (%d %s)",
    "HTTP response sent (%d %s)",
)
_NOT_HTTP = "Invalid HTTP request received."
_NOT_HTTP_ERR_ID = "ERR-PYOCO-0002"


class _WithoutKeys(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self.headers = set(_SECRET_HEADERS)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg in _REFUSED_SOCKET:
            return False
        args = record.args
        if isinstance(args, tuple):
            if len(args) == 2 and str(args[0]).lower() in self.headers:
                record.args = (args[0], HIDDEN)
            else:
                record.args = tuple(_harmless(arg) if isinstance(arg, str) else arg for arg in args)
        if record.msg == _NOT_HTTP:
            record.err_id, record.msg_id = _NOT_HTTP_ERR_ID, message_id_of(_NOT_HTTP_ERR_ID)
            record.http_status = 400
        return True


_without_keys = _WithoutKeys()


def _harmless(text: str) -> str:
    path, mark, query = text.partition("?")
    return without_key(path) + mark + _VALUE.sub(HIDDEN, query)


def redact_server_logs(api_key_header: str = "X-API-Key") -> None:
    """May be called again: the filter is added once."""
    _without_keys.headers.add(api_key_header.lower())
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_without_keys)
