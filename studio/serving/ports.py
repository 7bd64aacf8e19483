"""Whether a server can listen where it is asked to; known before one is imported."""

import socket

from studio.errors import ConfigError
from studio.messages import Message

_LAST_PORT = 65_535


def require_free_port(host: str, port: int) -> None:
    """Refuses a port that somebody listens on, before anything is started.

    Raises:
        ConfigError: if it is taken, or the address is none of this machine.
    """
    if (reason := why_taken(host, port)) is not None:
        raise ConfigError(
            "Port {port} on {host} cannot be used ({reason}): set GRADIO_SERVER_PORT to a free one, or "
            "leave it out and the next free one is taken.",
            port=port,
            host=host,
            reason=reason,
        )


def why_taken(host: str, port: int) -> Message | str | None:
    """Why nobody can listen there: another does, or the address is none of this machine; None if one can."""
    if not 0 < port <= _LAST_PORT:
        return Message("ports are 1 to {last}", last=_LAST_PORT)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror
    return None
