"""How much one client may ask for, and the two families of headers that say so, the older and the draft's."""

from __future__ import annotations

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.context import Store
from pyoco_server.http_api.faces.recheck.table import READS, RECHECK, RECHECK_ALL
from pyoco_server.recheck.rates import WINDOW_SEC, Taken


class Limiter:
    def __init__(self, store: Store, config: NatsBackendConfig) -> None:
        self._store = store
        self._per_minute = {
            READS: config.recheck_reads_per_min,
            RECHECK: config.recheck_per_min,
            RECHECK_ALL: config.recheck_all_per_min,
        }

    async def take(self, tenant: str, client: str, limit: str) -> Taken:
        taken: Taken = await self._store.limits.take(
            tenant, client, limit, per_minute=self._per_minute[limit]
        )
        return taken

    def headers(self, limit: str, taken: Taken) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(taken.limit),
            "X-RateLimit-Remaining": str(taken.remaining),
            "X-RateLimit-Reset": str(taken.reset_sec),
            "RateLimit-Policy": f'"{limit}";q={taken.limit};w={round(WINDOW_SEC)}',
            "RateLimit": f'"{limit}";r={taken.remaining};t={taken.reset_sec}',
        }
