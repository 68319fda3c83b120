"""What nobody asks for and is due all the same: lost workers and those long gone, runs kept long
enough, owed jobs, due runs, schedules, ended rechecks. One gateway at a time.
"""

from pyoco_server.housekeeping.ended_batches import EndedBatches
from pyoco_server.housekeeping.keeper import Housekeeper

__all__ = ["EndedBatches", "Housekeeper"]
