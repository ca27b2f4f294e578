"""Who may talk to the server: only pages that it served itself, under a name it was given.

A page of another site can reach 127.0.0.1 in two ways: by sending requests across origins (then `Origin`
or `Sec-Fetch-Site` tells) and by letting its own name point to 127.0.0.1 (then `Host` tells).
"""

from starlette.types import ASGIApp, Receive, Scope, Send

HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        b"object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Guard:
    """Refuses foreign Host, Origin and Sec-Fetch-Site, bodies that are too large, and every WebSocket."""

    def __init__(self, app: ASGIApp, names: set[str], port: int, largest_body: int = 2**20):
        self.app, self.largest_body = app, largest_body
        self.hosts = {f"{name}:{port}" for name in names}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1008})
        given = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
        reason = self._reason(given, scope["method"])
        if reason:
            return await _refuse(send, 421 if "Host" in reason else 403, reason)

        received = 0

        async def bounded() -> dict:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.largest_body:
                raise ValueError(f"the request is larger than {self.largest_body} bytes.")
            return message

        async def with_headers(message: dict) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
            await send(message)

        await self.app(scope, bounded, with_headers)

    def _reason(self, given: list[tuple[str, str]], method: str) -> str:
        hosts = [v for k, v in given if k == "host"]
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return f"Host {hosts} is not this server."
        headers = dict(given)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            return f"Origin {origin!r} may not use this server."
        navigation = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and not navigation:
            return "requests from other sites are refused."
        if method == "POST" and headers.get("x-lab") != "1":
            return "POST needs the header X-Lab: 1."
        if int(headers.get("content-length", "0") or 0) > self.largest_body:
            return "the request is too large."
        return ""


async def _refuse(send: Send, status: int, reason: str) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS],
        }
    )
    await send({"type": "http.response.body", "body": reason.encode()})
