"""Ports for processes of tests that talk to each other."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of this host that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
