"""Requests that a foreign page, a rebound name or a broken client could send: all refused, in a sentence."""

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from finitewidth.course._server.guard import COOKIE, Guard

HOST = "127.0.0.1:8110"
OURS = {"host": HOST}


async def echo(request: Request):
    return PlainTextResponse(f"{len(await request.body())} {request.url.query}")


async def said(request: Request, error: HTTPException):
    return JSONResponse({"error": error.detail}, error.status_code)


def answer(method="GET", path="/x", headers=OURS, content=None, token="", largest_body=1000):
    app = Starlette(
        routes=[Route("/x", echo, methods=["GET", "POST"])], exception_handlers={HTTPException: said}
    )
    guard = Guard(app, {"127.0.0.1", "localhost"}, 8110, token, largest_body)

    async def ask():
        transport = httpx.ASGITransport(guard)
        async with httpx.AsyncClient(transport=transport, base_url="http://unused") as client:
            return await client.request(method, path, headers=headers, content=content)

    return asyncio.run(ask())


def test_our_own_page_is_answered_and_gets_a_strict_policy():
    found = answer(headers=OURS | {"sec-fetch-site": "same-origin", "origin": f"http://{HOST}"})
    assert found.status_code == 200
    policy = found.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "script-src" not in policy
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in found.headers


@pytest.mark.parametrize(
    "host",
    ["evil.example:8110", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example:8110", "0.0.0.0:8110", ""],
)
def test_a_foreign_host_is_refused(host):
    """A rebound name arrives as Host, with an Origin that fits it."""
    found = answer(headers={"host": host, "origin": f"http://{host}"})
    assert found.status_code == 421
    assert "Host" in found.json()["error"]


def test_two_hosts_are_refused():
    assert answer(headers=[("host", HOST), ("host", "evil.example")]).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"https://{HOST}"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_origins_are_refused(method, headers):
    found = answer(method, headers=OURS | {"x-lab": "1"} | headers)
    assert found.status_code == 403
    assert found.json()["error"].endswith(".")


def test_two_origins_are_refused():
    ours = ("origin", f"http://{HOST}")
    assert answer(headers=[("host", HOST), ours, ours]).status_code == 403


def test_a_link_on_another_site_may_be_followed():
    """But only as a navigation, whose answer the other site cannot read."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert answer(headers=OURS | headers).status_code == 200
    assert answer("POST", headers=OURS | headers | {"x-lab": "1"}).status_code == 403


def test_a_form_cannot_post():
    found = answer("POST", headers=OURS | {"content-type": "application/x-www-form-urlencoded"})
    assert found.status_code == 403
    assert "X-Lab" in found.json()["error"]


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE"])
def test_a_preflight_gets_no_permission(method):
    found = answer(method, headers=OURS | {"access-control-request-method": "POST"})
    assert found.status_code == 405
    assert not [name for name in found.headers if name.startswith("access-control")]


def test_the_size_is_bounded_as_announced_and_as_it_arrives():
    post = OURS | {"x-lab": "1"}
    assert answer("POST", headers=post, content=b"x" * 1000).text == "1000 "
    announced = answer("POST", headers=post, content=b"x" * 1001)
    assert announced.status_code == 413

    async def chunks():
        for _ in range(11):
            yield b"x" * 100

    arriving = answer("POST", headers=post | {"transfer-encoding": "chunked"}, content=chunks())
    assert arriving.status_code == 413
    assert arriving.json() == {"error": "the request is larger than 1000 bytes."}


@pytest.mark.parametrize("length", ["-5", "1e3", "9" * 400, "²"])
def test_a_length_that_makes_no_sense_is_refused(length):
    headers = [(b"host", HOST.encode()), (b"x-lab", b"1"), (b"content-length", length.encode("latin-1"))]
    assert answer("POST", headers=headers, content=b"").status_code == 413


def test_every_web_socket_is_closed():
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        raise AssertionError("reached the application")

    scope = {"type": "websocket", "headers": [(b"host", HOST.encode())], "path": "/", "query_string": b""}
    asyncio.run(Guard(app, {"127.0.0.1"}, 8110)(scope, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_a_token_is_needed_once():
    assert answer(token="secret").status_code == 401
    assert answer(path="/x?token=guess", token="secret").status_code == 401
    entered = answer(path="/x?token=secret&width=64", token="secret")
    assert entered.status_code == 303
    assert entered.headers["location"] == "/x?width=64"
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert answer(token="secret", headers=OURS | {"cookie": cookie.split(";")[0]}).status_code == 200
    assert answer(token="secret", headers=OURS | {"cookie": f"{COOKIE}=guess"}).status_code == 401
    # A POST does not enter by the link.
    assert answer("POST", "/x?token=secret", OURS | {"x-lab": "1"}, token="secret").status_code == 401


def test_a_token_does_not_lead_to_another_host():
    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "//evil.example/",
        "query_string": b"token=secret",
        "headers": [(b"host", HOST.encode())],
    }
    asyncio.run(Guard(Starlette(), {"127.0.0.1"}, 8110, "secret")(scope, send, send))
    assert dict(sent[0]["headers"])[b"location"] == b"/evil.example/"
