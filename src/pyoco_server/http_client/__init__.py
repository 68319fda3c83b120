"""The gateway's HTTP API as Python calls. Needs httpx and no other module of this package.

`client` has `PyocoHttpClient`. Its calls about logs, schedules and workers are in files of their own; all use
`calls`.
"""

from pyoco_server.http_client.client import PyocoHttpClient as PyocoHttpClient

__all__ = ["PyocoHttpClient"]
