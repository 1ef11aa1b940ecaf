"""The REST client of `allora_sdk`: all its queries of the chain in both versions."""

import asyncio
import dataclasses
import importlib
import inspect
import json
import re
import typing

import betterproto2
import httpx
import requests_async
from allora_sdk.rpc_client.client import AlloraRPCClient
from allora_sdk.rpc_client.config import AlloraNetworkConfig
from allora_sdk.rpc_client.rest import EmissionsV9RestQueryServiceClient

# Number of v10 queries that the client has, and the minimum number of responses that it must parse. It
# cannot parse a few of them.
N_QUERIES = 107
N_READ_MIN = 95
# Queries in the API description that are newer than the releases of the client.
NEWER_QUERIES = {
    "/emissions/{version}/active_inferers/{topic_id}",
    "/emissions/{version}/active_forecasters/{topic_id}",
}
# Fields of topics and parameters that the older version does not have.
NEWER = re.compile(
    r"^(topic|topics)\.(c_norm|topic_type|output_arity|require_unity|unity_tolerance|label_\w+|max_labels\w+)$"
    r"|^params\.(max_canonical_label\w+|max_topic_label\w+|max_epoch_label\w+)$"
    r"|^inferences?(\.inferences)?\.values$|^latest_inference\.values$"
)


def check(network):
    read_names()
    asyncio.run(drive(network))


def read_names():
    """Makes the library of the client parse enum names as the chain writes them.

    Version 0.7, which the client requires, parses only names without prefix, so it cannot parse topics of
    any gateway.
    """
    plain = betterproto2.Enum.from_string.__func__

    def from_string(kind, name):
        names = {member.proto_name: member for member in kind}
        return names.get(name) or plain(kind, name)

    betterproto2.Enum.from_string = classmethod(from_string)


async def drive(network):
    rest = {"chain_id": "localnet", "url": f"rest+{network.url}", "websocket_url": None}
    client = AlloraRPCClient(network=AlloraNetworkConfig(**rest))
    actors = known(network)
    described = network.get("/api/openapi.json")["paths"]
    driven, read, refused = set(), {}, []
    for version, query in {
        "v10": client.emissions.query,
        "v9": EmissionsV9RestQueryServiceClient(network.url),
    }.items():
        bodies = []

        async def keep(answer):
            await answer.aread()
            bodies.append(answer)

        # The client has no parameter for an API key, so it is given a session that sends the key.
        hooks = {"response": [keep]}
        query.session = requests_async.AsyncSession(headers={"x-api-key": network.key}, event_hooks=hooks)
        async with query.session:
            for name, method in inspect.getmembers(query, inspect.iscoroutinefunction):
                request = built(version, name, method, actors)
                try:
                    answer = await method(request) if request else await method()
                except httpx.HTTPStatusError as error:
                    refused.append(f"{version} {name}: {error.response.status_code} {error.response.text}")
                    continue
                read[version] = read.get(version, 0) + 1
                raw = bodies[-1]
                driven |= {path for path in described if fits(path, raw.url.path)}
                lost = [at for at in gone(raw.json(), answer.to_dict()) if version == "v10" or not NEWER.match(at)]
                assert not lost, f"{version} {name}: the client knows no {lost}: {raw.text[:2000]}"
            await refusals(query, version)
    missing = {path for path in described if path.startswith("/emissions/")} - driven - NEWER_QUERIES
    assert not missing, missing
    for text in refused:
        print(f"   allora_sdk: refused {text}")
    print(f"   allora_sdk: {read['v10']} of {N_QUERIES} queries of v10 read, {read['v9']} of v9, nothing lost")
    assert read["v10"] >= N_READ_MIN, refused
    await client.close()


def known(network):
    """Returns the actors of topic 1 and one of its epochs with known losses."""
    bundle = network.get("/emissions/v10/latest_network_inferences/1?leave_out=all")["network_inferences"]
    nonce = int(network.get("/emissions/v10/topic_reward_nonce/1")["nonce"])
    loss = network.get(f"/emissions/v10/reputer_loss_bundles/1/{nonce}")
    return {
        "inferers": [own["worker"] for own in bundle["inferer_values"]],
        "forecasters": [own["worker"] for own in bundle["forecaster_values"]],
        "reputer": loss["loss_bundles"][0]["reputer"],
        "nonce": nonce,
    }


def built(version, name, method, actors):
    """Returns the request of a method with fields filled according to their names."""
    annotation = inspect.signature(method).parameters["message"].annotation
    kinds = [kind for kind in typing.get_args(annotation) or (annotation,) if kind is not type(None)]
    kind = kinds[0]
    assert kind.__module__.endswith(f"emissions.{version}"), kind
    inferer, forecaster = actors["inferers"][0], actors["forecasters"][0]
    actor = actors["reputer"] if "reputer" in name else forecaster if "forecast" in name else inferer
    values = {
        "topic_id": 1,
        "block_height": actors["nonce"],
        "block_height_last_inference": actors["nonce"],
        "actor_id": actor,
        "worker": actor,
        "worker_address": inferer,
        "inferer": inferer,
        "forecaster": forecaster,
        "one_out_inferer": actors["inferers"][1],
        "one_out_forecaster": actors["forecasters"][1],
        "address": actor,
        "reputer": actors["reputer"],
        "reputer_address": actors["reputer"],
        "delegator": inferer,
        "delegator_address": inferer,
        "target": actors["reputer"],
    }
    fields = [field.name for field in dataclasses.fields(kind)]
    return kind(**{field: values[field] for field in fields if field in values})


def fits(template, path):
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)


def gone(raw, read, at=""):
    """Returns the paths of values in `raw` that are missing in `read` and are not defaults."""
    if isinstance(raw, dict):
        read = read or {}
        for key, value in raw.items():
            camel = re.sub(r"_(\w)", lambda match: match[1].upper(), key)
            yield from gone(value, read.get(camel), f"{at}.{key}".lstrip("."))
    elif isinstance(raw, list):
        read = read or []
        if len(raw) != len(read):
            yield at
        for own, other in zip(raw, read):
            yield from gone(own, other, at)
    elif read is None:
        if raw not in (None, "", "0", 0, False):
            yield at
    elif raw != read:
        yield f"{at} ({raw!r} is read as {read!r})"


async def refusals(query, version):
    """Checks the errors for an unknown topic and for a missing key."""
    protos = importlib.import_module(f"allora_sdk.rpc_client.protos.emissions.{version}")
    unknown = protos.GetLatestNetworkInferencesRequest(topic_id=4_000_000)
    for key, status, code in ((None, 404, 5), ("UP-000000000000000000000000", 401, 16)):
        if key:
            query.session = requests_async.AsyncSession(headers={"x-api-key": key})
            await query.session.__aenter__()
        try:
            await query.get_latest_network_inferences(unknown)
            raise AssertionError(f"{status} is expected")
        except httpx.HTTPStatusError as error:
            body = json.loads(error.response.text)
            assert (error.response.status_code, body["code"]) == (status, code), error.response.text
