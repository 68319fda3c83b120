"""Parameters of streams, the same on every face."""

from __future__ import annotations

from pyoco_server.http_api.routing.params import header, text

LAST_EVENT_ID = header("Last-Event-ID", "The id that was read last: only what is newer comes.")
TICKET = text("ticket", "Of POST /tickets, for clients that cannot send a key.")
