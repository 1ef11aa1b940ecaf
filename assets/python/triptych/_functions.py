"""Functions on the workers of a cluster."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._client import Client
from ._errors import ServiceError, TriptychError

# Maximum time of an execution in addition to `timeout`, the time in which workers must report.
RUN_WITHIN_S = 30.0


@dataclass(frozen=True)
class ResultGroup:
    """Workers with an equal result."""

    frequency: float
    """Share of the results in percent."""
    peers: list[str]
    """Peer IDs of the workers."""
    stdout: str
    stderr: str
    exit_code: int


def run(
    function: str,
    nodes: int | str = 1,
    *,
    args: Sequence[Any] = (),
    env: dict[str, str] | None = None,
    stdin: str | None = None,
    method: str | None = None,
    subgroup: str | None = None,
    selector: str | None = None,
    quorum: int | None = None,
    timeout: int | None = None,
    client: Client | None = None,
) -> list[ResultGroup]:
    """Runs a function on workers and returns the distinct results, the most frequent first.

    Args:
        function: Name or content ID (CID) of a function that the head has, or the path of a `.wasm`
            file, which the head is given first.
        nodes: Number of workers, or "all" for every worker that responds.
        args: Arguments of the function.
        env: Variables of its environment.
        stdin: Its standard input.
        method: File inside the function to run; by default the function's own.
        subgroup: Subgroup of the workers.
        selector: Attributes of the workers, such as "zone=a,gpu!=none".
        quorum: Number of equal results that completes the execution early.
        timeout: Seconds that the head waits for workers.
        client: Services to use; by default those that the commands use.

    Raises:
        TriptychError: If there is no such function, or the execution did not succeed.

    Example:
        >>> triptych.run("hello", nodes=3)[0].stdout      # doctest: +SKIP
        'hello\\n'
    """
    if nodes not in ("all", -1) and (isinstance(nodes, str) or nodes < 1):
        raise TriptychError(f"nodes is {nodes}, expected 1 or more, or \"all\"")
    client = client or Client()
    found = _find(client, function)
    config: dict[str, Any] = {"number_of_nodes": -1 if nodes == "all" else nodes}
    if env:
        config["env_vars"] = [{"name": name, "value": value} for name, value in env.items()]
    optional = {"stdin": stdin, "selector": selector, "quorum": quorum, "timeout": timeout}
    config |= {name: value for name, value in optional.items() if value is not None}
    body: dict[str, Any] = {"function_id": found["function_id"], "method": method or found["method"]}
    body["config"] = config
    if args:
        body["parameters"] = [{"value": str(value)} for value in args]
    if subgroup:
        body["subgroup"] = subgroup
    # Not retried, since a function may have effects elsewhere.
    response = client.head.send_json(
        "POST", "/api/v1/functions/execute", body, tries=1, within=RUN_WITHIN_S + (timeout or 30)
    )
    if response["code"] != "200":
        reason = response.get("message") or "the execution failed"
        raise TriptychError(f"cannot run {function}: {reason} (code {response['code']})")
    return [
        ResultGroup(
            frequency=group["frequency"],
            peers=group["peers"],
            stdout=group["result"].get("stdout", ""),
            stderr=group["result"].get("stderr", ""),
            exit_code=group["result"].get("exit_code", 0),
        )
        for group in response.get("results") or []
    ]


def _find(client: Client, text: str) -> dict[str, Any]:
    """Returns the function that `text` names."""
    path = pathlib.Path(text)
    if path.suffix == ".wasm":
        try:
            data = path.read_bytes()
        except OSError as error:
            raise TriptychError(f"cannot read {text}: {error.strerror}") from error
        query = {"name": path.stem, "method": path.name}
        headers = {"Content-Type": "application/wasm"}
        client.head.call("POST", "/api/v1/functions", query, data=data, headers=headers)
        text = path.stem
    functions: list[dict[str, Any]] = client.head.get_json("/api/v1/functions")["functions"]
    found = [one for one in functions if text in (one["name"], one["function_id"])]
    if len(found) > 1:
        ids = " or ".join(one["function_id"] for one in found)
        raise TriptychError(f"several functions are called {text}: name one by its content ID, {ids}")
    if not found:
        try:
            detail: dict[str, Any] = client.head.get_json(f"/api/v1/functions/{text}")
            return detail
        except ServiceError:
            known = ", ".join(one["name"] for one in functions) or "none"
            raise TriptychError(f"the head has no function {text}: it has {known}") from None
    return found[0]
