"""A flow that imports what its parameter names: from a wheel, if there is one for it."""

from __future__ import annotations

import importlib
from typing import Any

from pyoco import Flow, task


def resolve(_flow_name: str) -> Flow:
    @task
    def version(ctx: Any) -> str:
        return str(importlib.import_module(ctx.params["module"]).VERSION)

    flow: Flow = Flow(name="imports") >> version
    return flow
