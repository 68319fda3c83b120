"""The gateway's HTTP API as Python calls. Needs httpx and nothing else of ours.

`client` has `PyocoHttpClient`; its calls about logs, schedules and workers are in files of their own.
"""

from pyoco_server.http_client.client import PyocoHttpClient as PyocoHttpClient

__all__ = ["PyocoHttpClient"]
