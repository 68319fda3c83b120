"""Charge an order exactly once. A task may be executed twice, so the charge has an idempotency key.

A worker can be lost after the provider was called and before the result is recorded; the next worker executes
the task again. The run and the task are the same then, and so is the key.
"""

import payments
from pyoco import Flow, task
from pyoco.core.context import Context


def order() -> Flow:
    @task
    def price(items: dict[str, int]) -> int:
        return sum(items.values())

    @task
    def charge(price: int, ctx: Context, database: str = "payments.db") -> str:
        assert ctx.run_context is not None
        return payments.charge(database, f"{ctx.run_context.run_id}-charge", price)

    @task
    def receipt(charge: str, price: int) -> str:
        return f"{charge}: {price / 100:.2f}"

    charge.task.retries = 5
    flow: Flow = Flow("order") >> price >> charge >> receipt
    return flow


def resolve(name: str) -> Flow:
    return {"order": order}[name]()
