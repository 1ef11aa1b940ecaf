// `AlloraAPIClient` of the npm package `@alloralabs/allora-sdk`, and verification of signatures with
// `ethers`: sdk.mjs ADDRESS KEY CONTRACT SIGNER
import assert from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import { AlloraAPIClient, ChainSlug, PriceInferenceTimeframe, PriceInferenceToken } from '@alloralabs/allora-sdk';
import { AbiCoder, concat, getBytes, id, keccak256, verifyMessage } from 'ethers';

const [address, apiKey, contract, signer] = process.argv.slice(2);
const config = { baseAPIUrl: `${address}/v2`, apiKey };
const client = new AlloraAPIClient({ ...config, chainSlug: ChainSlug.TESTNET });

for (const chainSlug of Object.values(ChainSlug)) {
  const topics = await new AlloraAPIClient({ ...config, chainSlug }).getAllTopics();
  assert.deepEqual(topics.map((topic) => topic.topic_id), topics.map((_, index) => index + 1));
  assert.ok(topics.length > 100, 'more than a page');
  assert.equal(topics[0].topic_name, 'value');
}

const encode = (types, values) => AbiCoder.defaultAbiCoder().encode(types, values);

// Returns the hash that the consumer contract computes.
function message({ network_inference, timestamp, topic_id, extra_data, ...rest }) {
  const domain = encode(['bytes32', 'bytes32', 'bytes32', 'uint256', 'address'], [
    id('EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)'),
    id('AlloraConsumer'),
    id('1'),
    11155111n,
    contract,
  ]);
  const data = encode(
    ['bytes32', 'uint256', 'uint256', 'uint256', 'bytes', 'uint256[]', 'uint256[]'],
    [
      id(
        'NetworkInferenceData(uint256 networkInference,uint256 timestamp,uint256 topicId,bytes extraData,' +
          'uint256[] confidenceIntervalPercentiles,uint256[] confidenceIntervalValues)',
      ),
      BigInt(network_inference),
      BigInt(timestamp),
      BigInt(topic_id),
      extra_data,
      rest.confidence_interval_percentiles.map(BigInt),
      rest.confidence_interval_values.map(BigInt),
    ],
  );
  return keccak256(concat(['0x1901', keccak256(domain), keccak256(data)]));
}

// A bundle has no interval if too few workers have submitted in time, as on a busy machine.
async function withInterval(ask) {
  for (let n = 0; ; n += 1) {
    const answer = await ask();
    if (answer.inference_data.confidence_interval_values.length > 0 || n === 20) return answer;
    await setTimeout(1000);
  }
}

const answers = [
  await withInterval(() => client.getInferenceByTopicID(1)),
  await withInterval(() =>
    client.getPriceInference(PriceInferenceToken.BTC, PriceInferenceTimeframe.EIGHT_HOURS),
  ),
  await withInterval(() =>
    client.getPriceInference(PriceInferenceToken.ETH, PriceInferenceTimeframe.FIVE_MIN),
  ),
];
for (const { signature, inference_data: data } of answers) {
  assert.equal(data.confidence_interval_values.length, 5);
  const recovered = (of) => verifyMessage(getBytes(message(of)), signature);
  assert.equal(recovered(data), signer);
  assert.notEqual(recovered({ ...data, network_inference: data.network_inference + '0' }), signer);
}

// A topic with several labels, a negative value, an unknown topic and an unknown price.
const refused = (asked, status, words) =>
  assert.rejects(asked, ({ message }) => message.includes(`status=${status}`) && message.includes(words));
await refused(client.getInferenceByTopicID(2), 400, 'several labels');
await refused(client.getInferenceByTopicID(3), 400, 'negative');
await refused(client.getInferenceByTopicID(999), 404, 'topic 999 not found');
await refused(client.getPriceInference('BTC', '5m'), 404, 'BTC/8h, ETH/5m');
console.log(`   @alloralabs/allora-sdk: topics, ${answers.length} values signed by ${signer}`);
