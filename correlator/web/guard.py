"""Who is let in, with how much, and what every answer tells the browser to forbid.

Three kinds of attack are met here. A page elsewhere that sends forms to this server: requests that a browser made for
another site are refused. A name of somebody's that resolves to this machine (DNS rebinding): the Host header must be
one of ours. Whoever else reaches the port: the token.
"""

from __future__ import annotations

import secrets
from functools import lru_cache
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from correlator.report.html import page_script
from correlator.web.settings import Settings

COOKIE = "correlator-session"
#: Answered without a token: nothing of anybody's is shown there.
_OPEN = frozenset({"/health", "/login", "/static/style.css", "/favicon.ico"})

#: What pages may do: nothing but load this server's own files and send forms to it.
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: A report's file has its style and its script in it. Opened here it runs as a site of its own, without this one's
#: cookie, and may load nothing; what it states in its own policy narrows this further.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-popups allow-modals; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


@lru_cache(maxsize=1)
def result_policy() -> str:
    """What the page of a result may do: its style and its one script stand in it; it may load nothing."""
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{page_script()[1]}'; img-src data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


class TooLarge(HTTPException):
    """More bytes came than may."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"more than the limit of {limit >> 20:,} MiB was sent")


class Access:
    """Who has the token, or the cookie that stands for it while this server runs."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._session = secrets.token_urlsafe(32)

    def is_known(self, request: Request) -> bool:
        """Whether the request may see anything; everyone may where there is no token."""
        if self._token is None:
            return True
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(token.strip(), self._token):
            return True
        return _same(request.cookies.get(COOKIE, ""), self._session)

    def log_in(self, token: str, response: Response, *, secure: bool) -> bool:
        """Whether it is the token; then the answer sets the cookie, which no script can read."""
        if self._token is None or not _same(token, self._token):
            return False
        response.set_cookie(COOKIE, self._session, httponly=True, samesite="strict", secure=secure, path="/")
        return True


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, settings: Settings, access: Access) -> None:
        self._app = app
        self._settings = settings
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request: refused, or passed on with its body counted and its answer's headers set."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refuse(Request(scope))
        if refusal is not None:
            await refusal(scope, receive, answer)
            return
        await self._app(scope, self._counted(receive), answer)

    def _refuse(self, request: Request) -> Response | None:
        """The answer to whoever is not let in; None for all others."""
        headers = request.headers
        hosts = headers.getlist("host")
        allowed = self._settings.hosts
        if len(hosts) != 1 or (allowed is not None and _name_of(hosts[0]) not in allowed):
            return _said(request, 421, "this server does not answer to that name; use the address that it printed")
        if request.method not in ("GET", "HEAD") and _is_from_elsewhere(headers, hosts[0]):
            return _said(request, 403, "another site's page sent this; open this server's own page")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()) or int(length[:19]) > self._settings.max_upload:
            return _said(request, 413, TooLarge(self._settings.max_upload).detail)
        if request.url.path in _OPEN or self._access.is_known(request):
            return None
        if is_for_programs(request) or request.method not in ("GET", "HEAD"):
            refusal = _said(request, 401, "a token is needed: Authorization: Bearer TOKEN")
            refusal.headers["www-authenticate"] = "Bearer"
            return refusal
        return RedirectResponse(f"/login?next={quote(request.url.path, safe='/')}", 303)

    def _counted(self, receive: Receive) -> Receive:
        """The body, up to the limit: a length that was stated wrongly or not at all makes no difference."""
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._settings.max_upload:
                raise TooLarge(self._settings.max_upload)
            return message

        return counted


def _same(given: str, wanted: str) -> bool:
    """Whether they are the same and not empty, in a time that tells nothing."""
    return bool(wanted) and secrets.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _name_of(host: str) -> str:
    """A Host header without its port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


def _is_from_elsewhere(headers: Headers, host: str) -> bool:
    """Whether a browser sends this on behalf of another site's page. Programs that are no browser state neither."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}")


def is_for_programs(request: Request) -> bool:
    """Whether faults are told as JSON, and nobody is sent to a page to log in."""
    return request.url.path.startswith("/api/") or request.url.path.endswith(".json")


def _said(request: Request, status: int, text: str) -> Response:
    if is_for_programs(request):
        return JSONResponse({"error": text}, status)
    return PlainTextResponse(f"{text}\n", status)
