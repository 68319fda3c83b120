from pyoco_server.worker.short_flows import (
    FLOWS_MAX,
    KNOWN_RUNS_MIN,
    RECENT_RUNS,
    SHORT_SEC,
    CodeTimes,
    FlowKey,
    ShortFlows,
)

KEY = FlowKey(0, None, "f", None)
SHORT, LONG = CodeTimes(SHORT_SEC / 5, SHORT_SEC / 10), CodeTimes(SHORT_SEC * 10, SHORT_SEC * 10)


def measured(*times: CodeTimes) -> ShortFlows:
    flows = ShortFlows()
    for one in times:
        flows.note(KEY, one)
    return flows


def test_a_flow_is_short_after_some_short_runs() -> None:
    assert measured(*[SHORT] * (KNOWN_RUNS_MIN - 1)).stretch_sec(KEY) is None
    assert measured(*[SHORT] * KNOWN_RUNS_MIN).stretch_sec(KEY) == SHORT.longest_sec


def test_one_long_run_does_not_decide_but_most_do() -> None:
    assert measured(SHORT, SHORT, LONG, SHORT).stretch_sec(KEY) is not None
    assert measured(*[SHORT] * 5, *[LONG] * RECENT_RUNS).stretch_sec(KEY) is None


def test_a_flow_that_is_forgotten_is_measured_again() -> None:
    flows = measured(*[SHORT] * KNOWN_RUNS_MIN)
    flows.forget(KEY)
    assert flows.stretch_sec(KEY) is None
    flows.note(KEY, SHORT)
    assert flows.stretch_sec(KEY) is None


def test_tenants_editions_and_texts_are_measured_apart() -> None:
    flows = measured(*[SHORT] * KNOWN_RUNS_MIN)
    others = (KEY._replace(edition=1), KEY._replace(tenant="t"), KEY._replace(yaml_sha256="x"))
    assert [flows.stretch_sec(other) for other in others] == [None] * 3


def test_the_flows_that_ran_last_are_kept() -> None:
    flows = measured(*[SHORT] * KNOWN_RUNS_MIN)
    for number in range(FLOWS_MAX):
        flows.note(KEY._replace(name=str(number)), SHORT)
    assert flows.stretch_sec(KEY) is None
