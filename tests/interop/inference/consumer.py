"""`AlloraAPIClient` of `allora_sdk`, and verification of signatures by `eth-account`."""

import asyncio
import decimal

import aiohttp
from allora_sdk.api_client import AlloraAPIClient, ChainID
from eth_abi import encode
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_utils import keccak

import network as of

DOMAIN = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
DATA = (
    "NetworkInferenceData(uint256 networkInference,uint256 timestamp,uint256 topicId,bytes extraData,"
    "uint256[] confidenceIntervalPercentiles,uint256[] confidenceIntervalValues)"
)
SIGNER = Account.from_key(of.SIGNER_KEY).address


def check(network):
    asyncio.run(drive(network))


async def drive(network):
    base = f"{network.url}/v2"
    for chain in ChainID:
        client = AlloraAPIClient(chain_id=chain, api_key=network.key, base_api_url=base)
        topics = await client.get_all_topics()
        assert [topic.topic_id for topic in topics] == list(range(1, of.N_TOPICS + 1))
        first = topics[0]
        assert (first.topic_name, first.epoch_length, first.is_active) == ("value", of.EPOCH_BLOCKS, True)
        assert topics[-1].is_active is False and first.worker_count >= 5 and first.reputer_count == 1
    answer = await client.get_inference_by_topic_id(1)
    data = answer.inference_data
    assert answer.token_decimals == 18 and len(data.confidence_interval_values) == 5, answer
    whole, plain = decimal.Decimal(data.network_inference), decimal.Decimal(data.network_inference_normalized)
    assert whole == (plain * 10**18).to_integral_value(decimal.ROUND_DOWN), data
    found = Account.recover_message(encode_defunct(primitive=hashed(data)), signature=answer.signature)
    assert found == SIGNER, f"{found} signed, not {SIGNER}"
    data.timestamp += 1
    found = Account.recover_message(encode_defunct(primitive=hashed(data)), signature=answer.signature)
    assert found != SIGNER, "another timestamp is another message"
    # A topic with several labels, a negative value, an unknown topic and an unknown key.
    stranger = AlloraAPIClient(api_key="UP-000000000000000000000000", base_api_url=base)
    for caller, topic, status in ((client, 2, 400), (client, 3, 400), (client, 999, 404), (stranger, 1, 401)):
        try:
            await caller.get_inference_by_topic_id(topic)
            raise AssertionError(f"topic {topic}: {status} is expected")
        except aiohttp.ClientResponseError as error:
            assert error.status == status, error
    print(f"   allora_sdk: {len(topics)} topics by pages, a value signed by {SIGNER}")


def hashed(data):
    """Returns the hash of the consumer contract by another implementation of its encoding."""
    chain = int(of.CHAIN.rsplit("-", 1)[1])
    domain = [keccak(text=DOMAIN), keccak(text="AlloraConsumer"), keccak(text="1"), chain, of.CONTRACT]
    separator = keccak(encode(["bytes32", "bytes32", "bytes32", "uint256", "address"], domain))
    kinds = ["bytes32", "uint256", "uint256", "uint256", "bytes", "uint256[]", "uint256[]"]
    values = [
        keccak(text=DATA),
        int(data.network_inference),
        data.timestamp,
        int(data.topic_id),
        bytes.fromhex(data.extra_data.removeprefix("0x")),
        [int(text) for text in data.confidence_interval_percentiles],
        [int(text) for text in data.confidence_interval_values],
    ]
    return keccak(b"\x19\x01" + separator + keccak(encode(kinds, values)))
