"""Flows as people have them, for pictures: a nightly load, a release that asks, a training that fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import Meta
from pyoco import Flow, task

from pyoco_server import approval


def nightly_orders() -> Flow:
    @task
    def extract_orders(
        day: str = "2026-11-15",
        region: Literal["apac", "emea", "us"] = "apac",
        tables: list[str] = ["orders"],  # noqa: B006
        dry_run: bool = False,
        pace: float = 0.0,
    ) -> int:
        for part in range(1, 5):
            time.sleep(pace)
            print(f"\x1b[36morders\x1b[0m part {part} of 4: {part * 2_417} rows")
        return 9_668

    @task
    def extract_customers(
        pace: Annotated[float, Meta(ge=0, le=5, description="Seconds between parts")] = 0.0,
    ) -> int:
        time.sleep(pace * 2)
        print("\x1b[36mcustomers\x1b[0m 1204 rows")
        return 1_204

    @task
    def extract_prices(pace: float = 0.0) -> int:
        time.sleep(pace)
        print("\x1b[36mprices\x1b[0m 318 rows")
        return 318

    @task
    def join_tables(
        extract_orders: int, extract_customers: int, extract_prices: int, pace: float = 0.0
    ) -> int:
        time.sleep(pace * 2)
        print(f"joined \x1b[32m{extract_orders}\x1b[0m rows")
        return extract_orders

    @task
    def check_totals(join_tables: int, pace: float = 0.0) -> str:
        for number in range(1, 400):
            if pace:
                time.sleep(pace / 4)
            print(f"checked {number * 24} of {join_tables} rows")
            if not pace and number > 20:
                break
        return "totals agree"

    @task
    def write_report(check_totals: str) -> str:
        print("\x1b[33mreport\x1b[0m written to orders-2026-11-15.pdf")
        return "orders-2026-11-15.pdf"

    @task
    def load_warehouse(check_totals: str) -> int:
        print("loaded")
        return 9_668

    @task
    def tell_team(write_report: str, load_warehouse: int) -> str:
        return f"{write_report}, {load_warehouse} rows"

    begun = Flow("nightly_orders") >> [extract_orders, extract_customers, extract_prices]
    flow: Flow = begun >> join_tables >> check_totals >> [write_report, load_warehouse] >> tell_team
    return flow


def release() -> Flow:
    @task
    def build(version: str = "1.4.0") -> str:
        print(f"building shop {version}")
        return f"shop-{version}.tar.gz"

    @task
    def test(build: str) -> str:
        print("\x1b[32m412 passed\x1b[0m")
        return "412 passed"

    @task
    def deploy(build: str, release: object) -> str:
        print(f"deploying {build}")
        return build

    prompt = {
        "question": "Put it into production?",
        "file": "$node.build.output",
        "tests": "$node.test.output",
    }
    flow: Flow = Flow("release") >> build >> test >> approval("release", prompt=prompt) >> deploy
    return flow


def train_model() -> Flow:
    @task
    def load_features(days: int = 30) -> int:
        print(f"{days} days of features")
        return days * 1_000

    @task
    def fit(load_features: int, depth: int = 12) -> float:
        print(f"fitting {load_features} rows, depth {depth}")
        raise MemoryError(f"depth {depth} does not fit: 31.4 GiB wanted, 16 GiB there")

    @task
    def publish(fit: float) -> str:
        return "model"

    fit.task.retries = 2
    flow: Flow = Flow("train_model") >> load_features >> fit >> publish
    return flow


def thumbnails() -> Flow:
    @task
    def shrink(pictures: int = 12) -> int:
        print(f"{pictures} pictures shrunk")
        return pictures

    flow: Flow = Flow("thumbnails") >> shrink
    return flow


def import_archive() -> Flow:
    @task
    def read_archive() -> None:
        print("reading, and hearing nothing", flush=True)
        while True:
            time.sleep(0.05)

    flow: Flow = Flow("import_archive") >> read_archive
    return flow


def pdca_recheck() -> Flow:
    @task
    def evaluate(strategies: list[str]) -> dict[str, object]:
        good = {"winrate": 0.61, "sharpe": 1.2, "max_dd": 0.05}
        bad = {"winrate": 0.31, "sharpe": 0.2, "max_dd": 0.35}
        return {one: {"metrics": bad if "slow" in one else good} for one in strategies}

    flow: Flow = Flow("pdca_recheck") >> evaluate
    return flow


FLOWS: dict[str, Callable[[], Flow]] = {
    "nightly_orders": nightly_orders,
    "release": release,
    "train_model": train_model,
    "thumbnails": thumbnails,
    "import_archive": import_archive,
    "pdca_recheck": pdca_recheck,
}


def resolve(name: str) -> Flow:
    return FLOWS[name]()


resolve.flows = {  # type: ignore[attr-defined]
    "nightly_orders": "Loads yesterday's orders, checks and reports them",
    "release": "Builds, tests, asks, deploys",
    "train_model": "Fits the model of the week",
    "thumbnails": "Shrinks what was uploaded",
    "import_archive": "Reads the old archive",
}
