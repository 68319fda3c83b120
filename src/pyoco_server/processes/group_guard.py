"""One guard for all process groups that must end with this process. Owns which groups these are.

Processes that a child starts outlive it, and PDEATHSIG reaches the child only. The guard is a shell that
reads a pipe from this process. When the pipe is closed before the guard was released, it kills every group
that it was told of. A guard that was killed or stopped is replaced when it is needed next.
"""

import contextlib
import os
import subprocess

GUARD_TIMEOUT_SEC = 2.0

# `groups` is a list with a space before and after each number.
_GUARD = """
groups=' '
while read -r word group; do
  case $word in
    watch) groups="$groups$group " ;;
    forget) groups="${groups%% $group *} ${groups#* $group }" ;;
    released) exit ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class GroupGuard:
    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        self._groups.add(group)
        self._tell(f"watch {group}\n")

    def forget(self, group: int) -> None:
        """Its number may be given to another group from now on. Callable twice."""
        if group in self._groups:
            self._groups.remove(group)
            self._tell(f"forget {group}\n")

    def release(self) -> None:
        """End the guard without effect on the groups. Callable twice."""
        shell, self._shell = self._shell, None
        self._groups.clear()
        if shell is not None:
            _write(shell, "released\n")
            try:
                shell.wait(GUARD_TIMEOUT_SEC)
            except subprocess.TimeoutExpired:
                _kill(shell)
            _close(shell)

    def _tell(self, line: str) -> None:
        if self._shell is not None:
            if _write(self._shell, line):
                return
            # Killed before its pipe is closed: one that was only stopped would kill the groups.
            _kill(self._shell)
            _close(self._shell)
        self._shell = _start()
        _write(self._shell, "".join(f"watch {group}\n" for group in self._groups))


def _start() -> subprocess.Popen[bytes]:
    shell = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "guard"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={},  # it needs none, and code in a slot could read it
        start_new_session=True,  # Ctrl-C is not for the guard
    )
    assert shell.stdin is not None
    os.set_blocking(shell.stdin.fileno(), False)  # a stopped guard must not block this process
    return shell


def _write(shell: subprocess.Popen[bytes], text: str) -> bool:
    assert shell.stdin is not None
    data = text.encode()
    try:
        return os.write(shell.stdin.fileno(), data) == len(data)
    except (BlockingIOError, BrokenPipeError):
        return False


def _kill(shell: subprocess.Popen[bytes]) -> None:
    shell.kill()
    shell.wait()


def _close(shell: subprocess.Popen[bytes]) -> None:
    assert shell.stdin is not None
    with contextlib.suppress(OSError):
        shell.stdin.close()
