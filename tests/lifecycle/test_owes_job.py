"""Who needs a message on the queue: a table. (That commits number their jobs is a law of all histories.)"""

import pytest

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.run import Run, owes_job
from pyoco_server.lifecycle.status import LossCause
from tests.lifecycle.support.alphabet import claim, loss, run_after, wait

PARK = (claim(), wait(1, "b"), c.ParkRun(fence=1, waiting=["b"]))
RESUME = c.ResumeTask(task="b", wait_key="k")


@pytest.mark.parametrize(
    ("run", "owed", "job_no"),
    [
        pytest.param(run_after(), True, 1, id="submitted"),
        pytest.param(run_after(c.AddTag(tag="red", tags_max=9)), True, 1, id="tagged"),
        pytest.param(run_after(claim()), False, 1, id="claimed"),
        pytest.param(run_after(claim(), loss(1)), True, 2, id="lost"),
        pytest.param(run_after(claim(), loss(1, LossCause.SLOT_CRASHED)), True, 2, id="crashed"),
        pytest.param(run_after(claim(), loss(1, LossCause.HANDED_BACK)), True, 2, id="handed back"),
        pytest.param(run_after(claim(), loss(1), claim(2)), False, 2, id="claimed again"),
        pytest.param(run_after(c.RequeueRun(job_no=1, reason="owed")), True, 2, id="requeued"),
        pytest.param(run_after(claim(), wait(1, "b")), False, 1, id="waiting under a claim"),
        pytest.param(run_after(claim(), wait(1, "b"), RESUME), False, 1, id="resumed under a claim"),
        pytest.param(run_after(claim(), wait(1, "b"), loss(1)), True, 2, id="lost while waiting"),
        pytest.param(run_after(*PARK), False, 1, id="parked"),
        pytest.param(run_after(*PARK, RESUME), True, 2, id="resumed when parked"),
        pytest.param(run_after(*PARK, RESUME, claim(2)), False, 2, id="claimed after a resume"),
        pytest.param(run_after(claim(), c.CancelRun()), False, 1, id="cancel asked"),
        pytest.param(run_after(c.CancelRun()), False, 1, id="cancelled unclaimed"),
        pytest.param(run_after(claim(), c.CancelRun(), loss(1)), False, 2, id="cancelled by a loss"),
        pytest.param(run_after(*PARK, c.CancelRun()), False, 1, id="cancelled when parked"),
        pytest.param(run_after(claim(), c.CompleteRun(fence=1)), False, 1, id="completed"),
        pytest.param(run_after(claim(), loss(1, losses_max=1)), False, 2, id="worn out"),
        pytest.param(run_after(c.DiscardRun(reason="x")), False, 1, id="discarded"),
        pytest.param(run_after(c.CancelRun(), c.EraseRun()), False, 1, id="erased"),
    ],
)
def test_a_job_is_owed_when_somebody_has_to_pick_the_run_up(run: Run, owed: bool, job_no: int) -> None:
    assert owes_job(run) is owed
    assert (run.job_owed_since is not None) is owed
    assert run.job_no == job_no
