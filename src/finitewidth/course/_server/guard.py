"""Who may talk to the server: only pages that it served itself, under a name it was given.

A page of another site can reach 127.0.0.1 in two ways: by sending requests across origins (then `Origin`
or `Sec-Fetch-Site` tells) and by letting its own name point to 127.0.0.1 (then `Host` tells).
"""

import hmac
import json
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 2**20
COOKIE = "finitewidth-lab"
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
POLICY = (
    b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; "
    b"base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)


class Guard:
    """Refuses foreign Host, Origin and Sec-Fetch-Site, bodies that are too large, and every WebSocket.

    With a `token`, which a server that others can reach has, a visitor needs the link that holds it once; a
    cookie keeps it.
    """

    def __init__(
        self, app: ASGIApp, names: set[str], port: int, token: str = "", largest_body: int = LARGEST_BODY
    ):
        self.app, self.token, self.largest_body = app, token, largest_body
        self.hosts = {f"{name.lower()}:{port}" for name in names}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a sentence."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1008})
        refusal = self._refusal(scope)
        if refusal:
            return await _answer(send, *refusal)
        if self.token and not self._has_cookie(scope):
            return await self._ask_for_token(scope, send)
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.largest_body:
                raise HTTPException(413, f"the request is larger than {self.largest_body} bytes.")
            return message

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", []))
                policy = [] if any(k == b"content-security-policy" for k, _ in given) else [_POLICY]
                message = {**message, "headers": [*given, *HEADERS, *policy]}
            await send(message)

        await self.app(scope, bounded, with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        def all_of(name: bytes) -> list[str]:
            return [v.decode("latin-1").lower() for k, v in scope["headers"] if k.lower() == name]

        hosts, origins = all_of(b"host"), all_of(b"origin")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return 421, "the Host of this request is not a name of this server."
        if len(origins) > 1 or not set(origins) <= self.origins:
            return 403, "another origin may not use this server."
        sites, modes = all_of(b"sec-fetch-site"), all_of(b"sec-fetch-mode")
        navigation = scope["method"] == "GET" and modes == ["navigate"]
        if not set(sites) <= {"same-origin", "none"} and not navigation:
            return 403, "requests from other sites are refused."
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, f"the method {scope['method'][:10]} is not used here."
        if scope["method"] == "POST" and all_of(b"x-lab") != ["1"]:
            return 403, "POST needs the header X-Lab: 1."
        lengths = all_of(b"content-length")
        if any(not n.isascii() or not n.isdigit() or int(n[:18]) > self.largest_body for n in lengths):
            return 413, f"the request is larger than {self.largest_body} bytes."
        return None

    def _has_cookie(self, scope: Scope) -> bool:
        sent = "; ".join(v.decode("latin-1") for k, v in scope["headers"] if k.lower() == b"cookie")
        try:
            found = SimpleCookie(sent).get(COOKIE)
        except CookieError:
            return False
        return found is not None and self._is_token(found.value)

    def _is_token(self, said: str) -> bool:
        return hmac.compare_digest(said.encode(), self.token.encode())

    async def _ask_for_token(self, scope: Scope, send: Send) -> None:
        """A link with the right token becomes a cookie and the same link without it."""
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        if scope["method"] != "GET" or not any(k == "token" and self._is_token(v) for k, v in query):
            return await _answer(send, 401, "open the link with the token that the server printed.")
        rest = urlencode([(k, v) for k, v in query if k != "token"])
        # One slash: two would name another host.
        place = "/" + scope["path"].lstrip("/") + (f"?{rest}" if rest else "")
        cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
        more = [(b"location", place.encode("ascii", "ignore")), (b"set-cookie", cookie.encode())]
        return await _answer(send, 303, "", more)


_POLICY = (b"content-security-policy", POLICY)


async def _answer(send: Send, status: int, said: str, more: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [(b"content-type", b"application/json"), *HEADERS, _POLICY, *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": said}).encode()})
