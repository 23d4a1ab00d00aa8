"""Free ports on this machine."""

from __future__ import annotations

import errno
import random
import socket

from moderation_site.local.errors import StackError

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
    try:
        _listen(host, port)
    except OSError:
        return False
    return True


def require_free(host: str, port: int) -> None:
    """Checks that the web process can listen.

    Raises:
        StackError: It can't: the port is taken or not allowed, the address is not this machine's.
    """
    try:
        _listen(host, port)
    except socket.gaierror as error:
        raise StackError(f"{host} is no address of this machine: choose another --host.") from error
    except OSError as error:
        raise StackError(
            _REASONS.get(error.errno or 0, _OTHER).format(host=host, port=port)
        ) from error


_OTHER = "Nothing can listen on {host}:{port}: choose another --host or --port."
_REASONS = {
    errno.EADDRINUSE: "Port {port} is in use on {host}: stop what uses it, or choose another "
    "with --port.",
    errno.EACCES: "Port {port} is reserved for root: choose one above 1023 with --port.",
    errno.EADDRNOTAVAIL: "{host} is no address of this machine: choose another --host.",
}


def _listen(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        probe.listen()
