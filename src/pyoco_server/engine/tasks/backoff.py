"""How long a task waits before its next attempt. Decides; does not wait."""

import random
from collections.abc import Callable

RETRY_BACKOFF_FIRST_SEC = 0.1
RETRY_BACKOFF_FACTOR = 2.0
RETRY_BACKOFF_MAX_SEC = 5.0

# Not `random.random`: flows seed that generator and rely on its sequence, and forked processes share it.
_chance = random.SystemRandom().random


def backoff_sec(retries_done: int, chance: Callable[[], float] = _chance) -> float:
    """Between half of the step and all of it: tasks that failed together must not retry together."""
    # The exponent is bounded too: 2.0 ** 1024 does not fit into a float.
    step = RETRY_BACKOFF_FIRST_SEC * RETRY_BACKOFF_FACTOR ** min(retries_done, 32)
    return min(RETRY_BACKOFF_MAX_SEC, step) * (1 + chance()) / 2
