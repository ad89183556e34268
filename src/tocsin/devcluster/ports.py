"""Choosing TCP ports that are free and stay so. Nothing about who will listen on them may enter."""

import random
import socket
from collections.abc import Collection, Mapping, Sequence

from tocsin.devcluster.errors import DevClusterError

# Below the range that the kernel gives to outgoing connections (32768 and up): a port that is kept across restarts
# must not be taken meanwhile by some client, least of all by one that is retrying to connect to that very port.
PORT_MIN = 20_000
PORT_MAX = 29_999
TRIES_MAX = 500


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Tell whether a server could listen on the port now (as Java's do, with SO_REUSEADDR)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose(
    names: Sequence[str], kept: Mapping[str, int], *, avoid: Collection[int] = (), host: str = "127.0.0.1"
) -> dict[str, int]:
    """Give each name a free port: the kept one where it is still free, else another at random."""
    chosen: dict[str, int] = {}
    for name in names:
        port = kept.get(name)
        taken = {*avoid, *chosen.values()}
        if port is None or port in taken or not is_free(port, host):
            port = _pick({*taken, *kept.values()}, host)
        chosen[name] = port
    return chosen


def _pick(avoid: Collection[int], host: str) -> int:
    for _ in range(TRIES_MAX):
        port = random.randint(PORT_MIN, PORT_MAX)
        if port not in avoid and is_free(port, host):
            return port
    raise DevClusterError(
        f"no free port between {PORT_MIN} and {PORT_MAX} on {host} in {TRIES_MAX} tries",
        remedy="see who listens there with `ss -ltnp`",
    )
