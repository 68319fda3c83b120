"""Choose the port to listen on: the preferred one if it is free, else any free one."""

import socket


def choose_port(host: str, preferred: int) -> int:
    return preferred if _is_free(host, preferred) else _any_free(host)


def _is_free(host: str, port: int) -> bool:
    try:
        _bind(host, port).close()
    except OSError:
        return False
    return True


def _any_free(host: str) -> int:
    with _bind(host, 0) as probe:
        port: int = probe.getsockname()[1]
        return port


def _bind(host: str, port: int) -> socket.socket:
    """Bind and listen as the server will, so that connections lingering from before do not count as busy."""
    probe = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        probe.listen(1)
    except OSError:
        probe.close()
        raise
    return probe
