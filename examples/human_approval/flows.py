"""A refund that a person approves: check → approve (waits, up to two days) → pay → pause → notify."""

from pyoco import Flow, task

from pyoco_server import approval, sleep

TWO_DAYS_SEC = 2 * 86_400


def refund() -> Flow:
    @task
    def check(order: int, amount: float) -> dict[str, object]:
        return {"order": order, "amount": amount, "limit_exceeded": amount > 100}

    @task
    def pay(check: dict[str, object], approve: dict[str, str]) -> str:
        return f"paid {check['amount']} for order {check['order']}, approved by {approve['by']}"

    @task
    def notify(pay: str) -> str:
        print(f"mail: {pay}")
        return pay

    ask = approval("approve", prompt={"refund": "$node.check.output"}, timeout_sec=TWO_DAYS_SEC)
    flow: Flow = Flow("refund") >> check >> ask >> pay >> sleep(0.5, "settle") >> notify
    return flow


def resolve(name: str) -> Flow:
    return {"refund": refund}[name]()
