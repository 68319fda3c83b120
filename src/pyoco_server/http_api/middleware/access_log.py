"""What the HTTP server itself logs must not contain secrets: in paths, in queries, or in headers.

At DEBUG the server's WebSocket side logs every header of a handshake, and at INFO the address with its query.
What it refuses before we see it (bytes that are not HTTP) it logs too; that line gets the id of the error.
A client without a key must not fill the log, so what it says of refused sockets is left out.
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
# Of a refused handshake, by uvicorn and by its library. There is a line of ours, and those are bounded.
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
    """Callable twice: the filter is there once."""
    _without_keys.headers.add(api_key_header.lower())
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_without_keys)
