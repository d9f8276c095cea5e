"""Ports for programs that must be told theirs before they start."""

import random
import socket
from typing import Final

HOST: Final = "127.0.0.1"
_BELOW_THE_CHOSEN: Final = range(20_000, 32_000)
"""The kernel gives connections ports from 32768 on, at any moment."""


def free_port() -> int:
    """Return a port that nobody has, and that no connection will be given."""
    while True:
        port = random.choice(_BELOW_THE_CHOSEN)  # noqa: S311 - no secret
        try:
            with socket.create_server((HOST, port)):
                return port
        except OSError:
            continue
