"""A trial subscription: welcome → wait a week → ask a person whether to convert → bill, with retries."""

from pyoco import Flow, task

from pyoco_server import approval, sleep

WEEK_SEC = 7 * 86_400


def call_billing(customer: str) -> str:
    """Stands for a request to another system; tests replace it."""
    return f"invoice-{customer}"


def trial() -> Flow:
    @task
    def welcome(customer: str) -> str:
        print(f"welcome, {customer}")
        return customer

    @task
    def bill(welcome: str, convert: dict[str, str]) -> str:
        return f"{call_billing(welcome)} ({convert['plan']})"

    bill.task.retries = 2
    ask = approval("convert", prompt={"customer": "$node.welcome.output"}, timeout_sec=WEEK_SEC)
    flow: Flow = Flow("trial") >> welcome >> sleep(WEEK_SEC, "trial_week") >> ask >> bill
    return flow


def resolve(name: str) -> Flow:
    return {"trial": trial}[name]()
