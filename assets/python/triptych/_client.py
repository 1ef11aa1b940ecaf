"""The services that a call uses."""

from __future__ import annotations

from . import _config
from ._errors import UnreachableError
from ._http import Service


class NoStackError(UnreachableError):
    """No local stack runs, and no service is configured."""

    is_passing = False


class Client:
    """Services and the key for them, for calls that name them with `client=`.

    Without arguments it is what the commands of `triptych` use: `TRIPTYCH_HEAD`,
    `TRIPTYCH_DATASETS`, `TRIPTYCH_INFERENCE` and `TRIPTYCH_API_KEY`, else a profile of the
    configuration file, else the local stack that runs.

    Args:
        profile: Name of a profile of the configuration file.
        head: Address of a head, such as `http://127.0.0.1:8080`.
        datasets: Address of a dataset service, ending in `/api`.
        inference: Address of an inference service.
        key: API key. It is better kept in the environment or by `triptych keys store`.
        frame: Library of the returned frames: "pandas", "polars" or "arrow".

    Example:
        >>> lab = triptych.Client(profile="lab", frame="polars")   # doctest: +SKIP
        >>> triptych.rows("btcusd", "2026-07-01", client=lab)      # doctest: +SKIP
    """

    def __init__(
        self,
        profile: str | None = None,
        *,
        head: str | None = None,
        datasets: str | None = None,
        inference: str | None = None,
        key: str | None = None,
        frame: str | None = None,
    ) -> None:
        self.frame = frame
        self._named = {
            "profile": profile, "head": head, "datasets": datasets, "inference": inference, "key": key,
        }
        self._found: _config.Services | None = None
        self.datasets = Service("dataset service", lambda: self._locate("datasets"))
        self.inference = Service("inference service", lambda: self._locate("inference"))
        self.head = Service("head", lambda: self._locate("head"))

    def services(self) -> _config.Services:
        """Returns the addresses and the key in use.

        Raises:
            NoStackError: If nothing is configured and no local stack runs.
        """
        # The local stack is found again each time, since its ports change when it is restarted.
        if self._found is None or self._found.is_local:
            found = _config.find(**self._named)
            is_default = not any([*self._named.values(), found.key, found.head])
            if is_default and found == _config.Services(None, _config.DATASETS, _config.INFERENCE):
                raise NoStackError(
                    f"no local stack runs and no service is configured: {_config.START}; or set "
                    "TRIPTYCH_DATASETS, TRIPTYCH_INFERENCE and TRIPTYCH_API_KEY"
                )
            self._found = found
        return self._found

    def _locate(self, name: str) -> tuple[str | None, dict[str, str]]:
        services = self.services()
        if name == "head":
            if not services.head:
                raise UnreachableError("no head is known: set TRIPTYCH_HEAD or pass Client(head=...)")
            token = None if services.is_local else _config.token()
            return services.head, {"Authorization": f"Bearer {token}"} if token else {}
        headers = {"X-API-Key": services.key} if services.key else {}
        return getattr(services, name), headers
