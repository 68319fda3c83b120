"""Rate limits of this face: how many requests one client may send, and the headers that state what is left.

There are two families of headers: `X-RateLimit-…` and those of the IETF draft.
"""

from __future__ import annotations

from pyoco_server.http_api.gateway import Gateway
from pyoco_server.token_bucket import WINDOW_SEC, Taken

READS, RECHECK, RECHECK_ALL = "reads", "recheck", "recheck_all"


async def take(gateway: Gateway, tenant: str, client: str, limit: str) -> Taken:
    config = gateway.config
    per_minute = {
        READS: config.recheck_reads_per_min,
        RECHECK: config.recheck_per_min,
        RECHECK_ALL: config.recheck_all_per_min,
    }
    return await gateway.store.limits.take(tenant, client, limit, per_minute=per_minute[limit])


def headers(limit: str, taken: Taken) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(taken.limit),
        "X-RateLimit-Remaining": str(taken.remaining),
        "X-RateLimit-Reset": str(taken.reset_sec),
        "RateLimit-Policy": f'"{limit}";q={taken.limit};w={round(WINDOW_SEC)}',
        "RateLimit": f'"{limit}";r={taken.remaining};t={taken.reset_sec}',
    }
