"""What time alone makes due: lost workers, owed jobs, schedules, stuck cancels. One gateway at a time."""

from pyoco_server.housekeeping.keeper import Housekeeper

__all__ = ["Housekeeper"]
