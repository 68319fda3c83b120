"""The gateway's HTTP API as Python calls, blocking and for `asyncio`. Needs httpx and no other module of
this package.

`client` has `PyocoHttpClient`, `async_client` has `AsyncPyocoClient`; `handles` and `async_handles` have
what their calls return: runs, executions, jobs, schedules, approvals. Each call is described once, as a
script (`script`), in the file of its noun: `runs`, `logs`, `approvals`, `schedules`, `executions`,
`jobs`, `workers`, `operator`, `overview`. `blocking` and `asynchronous` perform scripts. `retries` decides
which requests are sent again, `calls` has what descriptions share, `answers` the types of answers.
"""

from pyoco_server.http_client.async_client import AsyncPyocoClient as AsyncPyocoClient
from pyoco_server.http_client.client import PyocoHttpClient as PyocoHttpClient
from pyoco_server.http_client.retries import RequestRetryPolicy as RequestRetryPolicy

__all__ = ["AsyncPyocoClient", "PyocoHttpClient", "RequestRetryPolicy"]
