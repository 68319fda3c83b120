"""Starts the process that installs a wheel, and waits for it up to a limit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from pyoco_server.config import environment_for_children
from pyoco_server.processes.lifeline import die_with_parent
from pyoco_server.store.fleet.wheels.unpacked import UnpackedMax

REASON_CHARS_MAX = 500


class WheelBroken(Exception):
    """It cannot be installed here; the message says why."""


async def install(file: Path, folder: Path, at_most: UnpackedMax, *, timeout_sec: float) -> None:
    module = "pyoco_server.worker.wheels.unpack"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", module, str(file), str(folder)),
        *(str(at_most.bytes), str(at_most.files)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment_for_children(),
        start_new_session=True,
        preexec_fn=die_with_parent(),
    )
    try:
        async with asyncio.timeout(timeout_sec):
            _, stderr = await process.communicate()
    except TimeoutError:
        raise WheelBroken(
            f"installing it took longer than {timeout_sec:g} s (PYOCO_WHEEL_INSTALL_TIMEOUT_SEC)"
        ) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise WheelBroken(_reason(stderr, process.returncode))


def _reason(stderr: bytes, code: int) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return (lines[-1] if lines else f"its installation ended with {code}")[:REASON_CHARS_MAX]
