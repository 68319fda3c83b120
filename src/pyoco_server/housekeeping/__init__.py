"""Work that is due by time alone, without a request. One gateway at a time does it.

`keeper` holds the lease and executes the chores, one file each; `chores` and `isolation` keep a failing chore
or run from stopping the others. `ended_batches` settles the batches of rechecks.
"""

from pyoco_server.housekeeping.ended_batches import EndedBatches
from pyoco_server.housekeeping.keeper import Housekeeper

__all__ = ["EndedBatches", "Housekeeper"]
