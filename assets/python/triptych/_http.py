"""HTTP calls of one service, with the key, retries and plain errors."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

from ._errors import ServiceError, TriptychError, UnreachableError

WITHIN_S = 30.0
# Maximum number of attempts. A retry helps only if the service is unavailable for a moment.
TRIES = 4
RETRY_AFTER_MAX_S = 60.0

Query = dict[str, Any]


class Pauses:
    """Pauses between attempts, which grow from `first` to `longest` seconds."""

    def __init__(self, first: float, longest: float) -> None:
        self.first, self.longest = first, longest
        self._next = first

    def reset(self) -> None:
        """Starts again with the first pause."""
        self._next = self.first

    def next(self) -> float:
        """Returns the next pause, a little shorter or longer than the one before it doubled."""
        pause, self._next = self._next, min(self._next * 2, self.longest)
        return pause * random.uniform(0.8, 1.2)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Rejects redirects: the key is for one address only."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Service:
    """A service behind an address.

    `locate` returns its address, key and further headers. It is called for every attempt, since a
    local stack that was restarted has other ports.
    """

    def __init__(self, what: str, locate: Callable[[], tuple[str | None, dict[str, str]]]) -> None:
        self.what, self._locate = what, locate

    def get_json(self, path: str, query: Query | None = None) -> Any:
        """Returns the parsed body of a `GET`."""
        return self.call_json("GET", path, query)

    def send_json(
        self, method: str, path: str, body: Any, *, tries: int = TRIES, within: float | None = None
    ) -> Any:
        """Sends `body` as JSON and returns the parsed response."""
        try:
            data = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise TriptychError(f"a value in the request to the {self.what} is not JSON: {error}") from error
        headers = {"Content-Type": "application/json"}
        return self.call_json(method, path, data=data, headers=headers, tries=tries, within=within)

    def call_json(self, method: str, path: str, query: Query | None = None, **options: Any) -> Any:
        """Returns the parsed body of a response, `None` if it is empty. Takes the options of `call`."""
        response = self.call(method, path, query, **options)
        try:
            return json.loads(response or b"null")
        except ValueError as error:
            raise TriptychError(f"the response of the {self.what} is not JSON: check its address") from error

    def call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        within: float | None = None,
        tries: int = TRIES,
    ) -> bytes:
        """Returns the whole body of a response, after up to `tries` attempts."""
        pauses = Pauses(0.25, 4.0)
        while True:
            tries -= 1
            try:
                with self.open(method, path, query, data=data, headers=headers, within=within) as response:
                    return response.read()
            except TriptychError as error:
                if tries <= 0 or not error.is_passing:
                    raise
                asked = error.retry_after if isinstance(error, ServiceError) else 0.0
                time.sleep(max(pauses.next(), min(asked, RETRY_AFTER_MAX_S)))
            except (http.client.HTTPException, OSError) as error:
                if tries <= 0:
                    raise UnreachableError(f"the connection to the {self.what} broke: {error}") from None
                time.sleep(pauses.next())

    def open(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        within: float | None = None,
    ) -> http.client.HTTPResponse:
        """Opens a response, whose body is still to be read."""
        address, own = self._locate()
        if not address:
            raise TriptychError(f"the address of the {self.what} is unknown")
        url = address.rstrip("/") + path
        query = {name: str(value) for name, value in (query or {}).items() if value is not None}
        if query:
            url = f"{url}?{urllib.parse.urlencode(query)}"
        try:
            request = urllib.request.Request(url, data, {**own, **(headers or {})}, method=method)
            opened: http.client.HTTPResponse = _opener(url).open(request, timeout=within or WITHIN_S)
            return opened
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from None
        except ValueError as error:
            raise TriptychError(f"invalid address of the {self.what}: {address}") from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise TriptychError(f"the certificate of {address} is not valid: {reason}") from None
            raise UnreachableError(
                f"cannot reach the {self.what} at {address} ({reason}): check that it runs and that "
                "the address is right"
            ) from None

    def _refusal(self, error: urllib.error.HTTPError) -> ServiceError:
        body = error.read(1 << 20)
        message = _message(body) or error.reason or "no reason given"
        if 300 <= error.code < 400:
            message = f"the address redirects to {error.headers.get('Location', 'another one')}: use that one"
        hint = {
            401: "check the API key: `triptych keys create NAME` makes one",
            403: "check the API key and its tags",
        }.get(error.code)
        text = f"{self.what}: {message}" + (f": {hint}" if hint else "")
        refusal = ServiceError(error.code, message, text)
        try:
            refusal.retry_after = float(error.headers.get("Retry-After", 0))
        except ValueError:
            pass
        return refusal


def _message(body: bytes) -> str:
    """Returns the reason that a body gives, with what is wrong with the first rows."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return body[:200].decode(errors="replace").strip()
    if not isinstance(parsed, dict):
        return str(parsed)[:200]
    message = str(parsed.get("error") or parsed.get("message") or parsed)
    details = parsed.get("details")
    if isinstance(details, dict) and details.get("rows"):
        details = details["rows"]
    if isinstance(details, list):
        first = [json.dumps(detail) for detail in details[:3] if detail]
        message = "; ".join([message, *first])
    return message[:2000]


def _opener(url: str) -> urllib.request.OpenerDirector:
    handlers: list[Any] = [_NoRedirect()]
    if (urllib.parse.urlsplit(url).hostname or "") in ("127.0.0.1", "::1", "localhost"):
        # Requests to this machine ignore the proxy of the environment, which is for other machines.
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


def events(lines: Iterable[bytes]) -> Iterable[tuple[str, str, str]]:
    """Parses server-sent events: yields the name, the id and the data of each."""
    name, last_id = "message", ""
    data: list[str] = []
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if data or name != "message":
                yield name, last_id, "\n".join(data)
            name, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "id":
            last_id = value
        elif field == "data":
            data.append(value)
