"""Free ports on this machine."""

from __future__ import annotations

import random
import socket

# Below the range from which Linux takes the ports of outgoing connections (32768 and up): a server
# that is restarted finds its port still free.
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Distinct ports that nothing listens on."""
    candidates = random.SystemRandom().sample(range(LOWEST_PORT, HIGHEST_PORT), 50 * count + 50)
    free = (port for port in candidates if is_free(host, port))
    return [next(free) for _ in range(count)]


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
