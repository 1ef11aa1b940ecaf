"""The errors that this package raises."""

from __future__ import annotations


class TriptychError(Exception):
    """Something failed. The text says what, and what to do."""

    is_passing = False
    """True if another attempt may succeed a moment later."""


class ServiceError(TriptychError):
    """A service refused a request, or failed to serve it.

    Attributes:
        status: The HTTP status.
        message: The service's own words.
        retry_after: Seconds to wait before another attempt, 0 if the service does not say.
    """

    def __init__(self, status: int, message: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.message = message
        self.retry_after = 0.0
        self.is_passing = status in (429, 500, 502, 503, 504)


class UnreachableError(TriptychError):
    """No service answered at an address, or the connection broke."""

    is_passing = True
