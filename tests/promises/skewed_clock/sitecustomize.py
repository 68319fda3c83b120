"""Python imports this first where its folder is on the path: the clock of such a process is wrong.

Inherited by the processes that it starts, so a worker's slots have the same clock.
"""

import os
import time

_ahead_sec = float(os.environ.get("TEST_CLOCK_AHEAD_SEC", "0"))
_right = time.time
time.time = lambda: _right() + _ahead_sec
