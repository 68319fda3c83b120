"""What time alone makes due: lost workers, owed jobs, due runs, schedules, stuck cancels. One at a time."""

from pyoco_server.housekeeping.keeper import Housekeeper

__all__ = ["Housekeeper"]
