"""Open a port and serve the lab on it until Ctrl-C."""

import contextlib
import errno
import ipaddress
import secrets
import socket
from collections.abc import Callable

LOOPBACK = {"127.0.0.1", "localhost", "[::1]"}


def listen(host: str, port: int) -> socket.socket:
    """An open socket; port 0 takes a free one. Raises ValueError with a sentence if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} is already in use; give another one with --port.") from None
        if error.errno == errno.EACCES:
            raise ValueError(f"port {port} is not open to you; give one above 1023 with --port.") from None
        raise ValueError(f"cannot listen on {host}: {error.strerror or error}.") from None
    return listener


def names_of(host: str, allowed: list[str]) -> set[str]:
    """The names under which visitors may come: those of this computer, or those that were allowed."""
    if is_loopback(host):
        if allowed:
            raise ValueError("--allow names hosts for --host; without it only this computer can connect.")
        return LOOPBACK
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    if everywhere and not allowed:
        raise ValueError(
            f"--host {host} opens the lab to the network: name the hosts by which visitors come, such as "
            "--allow lab.example.org or --allow 192.168.1.5."
        )
    own = set() if everywhere else {f"[{host}]" if ":" in host else host}
    return own | set(allowed)


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(host: str, port: int, allowed: list[str], say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `say` is told the link when the server is open."""
    names = names_of(host, allowed)
    token = "" if is_loopback(host) else secrets.token_urlsafe(24)
    with contextlib.closing(listen(host, port)) as listener:
        # Only now, since it takes seconds: a port that is in use is told at once.
        import uvicorn

        from finitewidth.course._server.guard import Guard
        from finitewidth.course._server.server import application

        port = listener.getsockname()[1]
        name = "127.0.0.1" if "127.0.0.1" in names else sorted(names)[0]
        config = uvicorn.Config(
            Guard(application(), names, port, token),
            log_level="error",
            access_log=False,
            server_header=False,
            limit_concurrency=200,
            timeout_keep_alive=20,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        say(f"http://{name}:{port}/" + (f"?token={token}" if token else ""))
        # Uvicorn ends its work at Ctrl-C and then raises the signal again.
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
