// A b7s peer based on js-libp2p, an independent implementation of the protocols of our nodes. It shares no
// code with them, and follows the documentation of b7s.
//
//   node peer.mjs head   --dial ADDRESS --function CID --method FILE [--generation U|S]
//   node peer.mjs worker --dial ADDRESS --stdout TEXT [--generation U|S]
//   node peer.mjs find   --dial ADDRESS --topic NAME --want PEER
//
// head: issues a roll call on the general topic, sends the work order to the first worker that responds, and
// prints the result. worker: responds to roll calls and work orders until its input is closed. find: looks up
// the peers of a topic in the Kademlia table. Each prints one JSON object per line, and exits with 1 on failure.

import './node20.mjs'
import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import { noise } from '@chainsafe/libp2p-noise'
import { gossipsub } from '@libp2p/gossipsub'
import { identify } from '@libp2p/identify'
import { kadDHT, passthroughMapper } from '@libp2p/kad-dht'
import { ping } from '@libp2p/ping'
import { tcp } from '@libp2p/tcp'
import { webSockets } from '@libp2p/websockets'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { CID } from 'multiformats/cid'
import * as raw from 'multiformats/codecs/raw'
import { sha256 } from 'multiformats/hashes/sha2'

const GENERAL = 'blockless/b7s/general'
const WORK = '/b7s/work/1.0.0'
const WITHIN_MS = 15_000

const { positionals: [role], values: options } = parseArgs({
  allowPositionals: true,
  options: {
    dial: { type: 'string' },
    function: { type: 'string' },
    method: { type: 'string' },
    generation: { type: 'string', default: 'U' },
    stdout: { type: 'string' },
    topic: { type: 'string', default: GENERAL },
    want: { type: 'string' }
  }
})

const node = await createLibp2p({
  addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
  transports: [tcp(), webSockets()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: {
    identify: identify(),
    ping: ping(),
    // As in go-libp2p, messages are signed by their author, and identified by the author and a sequence
    // number.
    pubsub: gossipsub({ globalSignaturePolicy: 'StrictSign', allowPublishToZeroTopicPeers: false }),
    dht: kadDHT({ protocol: '/ipfs/kad/1.0.0', clientMode: true, peerInfoMapper: passthroughMapper })
  }
})
const own = node.peerId.toString()

function print (line) {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

/** Waits until `look` returns a value, and returns it. */
async function until (what, look) {
  const deadline = Date.now() + WITHIN_MS
  for (;;) {
    const found = await look()
    if (found != null && found !== false) return found
    if (Date.now() > deadline) throw new Error(`waited ${WITHIN_MS} ms for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Sends a message on a new stream: an object without a line feed, then the end. */
async function tell (peer, message) {
  const connection = node.getConnections(peer)[0] ?? await node.dial(peer)
  const stream = await connection.newStream(WORK)
  stream.send(new TextEncoder().encode(JSON.stringify(message)))
  await stream.close()
}

const inbox = []

await node.handle(WORK, async (stream, connection) => {
  const chunks = []
  for await (const chunk of stream) chunks.push(Buffer.from(chunk.subarray()))
  const [line] = Buffer.concat(chunks).toString('utf8').split('\n')
  inbox.push({ from: connection.remotePeer, message: JSON.parse(line) })
  await stream.close()
})

/** Waits for a message of `type`, and removes it from the inbox. */
function received (type) {
  return until(type, () => {
    const at = inbox.findIndex(({ message }) => message.type === type)
    return at < 0 ? null : inbox.splice(at, 1)[0]
  })
}

function same (what, got, want) {
  if (got !== want) throw new Error(`${what} is ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
}

async function join () {
  const connection = await node.dial(multiaddr(options.dial))
  node.services.pubsub.subscribe(GENERAL)
  await until('the peer on the general topic', () =>
    node.services.pubsub.getSubscribers(GENERAL).some((id) => id.equals(connection.remotePeer)))
  return connection.remotePeer
}

async function publish (message) {
  const bytes = new TextEncoder().encode(JSON.stringify(message))
  await node.services.pubsub.publish(GENERAL, bytes)
}

async function head () {
  const isOld = options.generation === 'S'
  const worker = await join()
  const requestId = randomUUID()
  const base = { request_id: requestId, function_id: options.function }
  await publish(isOld
    ? { type: 'MsgRollCall', from: own, origin: own, ...base }
    : { type: 'MsgRollCall', ...base, consensus: 0 })
  const report = await received('MsgRollCallResponse')
  same('the reporting peer', report.from.toString(), worker.toString())
  same('the code of the report', report.message.code, '202')
  same('the request of the report', report.message.request_id, requestId)
  same('the function of the report', report.message.function_id, options.function)

  await tell(worker, {
    type: isOld ? 'MsgExecute' : 'MsgWorkOrder',
    ...(isOld ? { from: own } : {}),
    ...base,
    method: options.method,
    config: { number_of_nodes: 1, env_vars: [{ name: 'GREETED', value: 'js' }] },
    parameters: null,
    timestamp: new Date().toISOString()
  })
  const { message } = await received(isOld ? 'MsgExecuteResponse' : 'MsgWorkOrderResponse')
  same('the request of the result', message.request_id, requestId)
  same('the code of the result', message.code, '200')
  const result = isOld ? message.results[worker.toString()] : message.result
  print({ worker: worker.toString(), ...result.result })
}

async function worker () {
  const isOld = options.generation === 'S'
  const outcome = {
    code: '200',
    result: { stdout: options.stdout, stderr: '', exit_code: 0 },
    usage: { wall_clock_time: 1_000_000, cpu_user_time: 1, cpu_sys_time: 1, memory_max_kb: 1 }
  }
  node.services.pubsub.addEventListener('message', ({ detail: { topic, data, from } }) => {
    const message = JSON.parse(new TextDecoder().decode(data))
    if (topic !== GENERAL || message.type !== 'MsgRollCall') return
    // The older generation responds to the peer that the message names, the newer one to the author of
    // the message.
    if (isOld && message.origin == null) return
    tell(from, {
      type: 'MsgRollCallResponse',
      ...(isOld ? { from: own } : {}),
      code: '202',
      function_id: message.function_id,
      request_id: message.request_id
    }).catch(fail)
  })
  const headId = await join()
  print({ peer: own, head: headId.toString() })
  process.stdin.on('end', () => process.exit(0)).resume()
  for (;;) {
    const { from, message } = await until('an order', () => inbox.shift()).catch(() => ({}))
    if (message?.type === 'MsgWorkOrder' && !isOld) {
      await tell(from, {
        type: 'MsgWorkOrderResponse',
        request_id: message.request_id,
        code: '200',
        result: { ...outcome, pbft: { view: 0, request_timestamp: '0001-01-01T00:00:00Z' } }
      })
    } else if (message?.type === 'MsgExecute' && isOld) {
      await tell(from, {
        type: 'MsgExecuteResponse',
        from: own,
        request_id: message.request_id,
        code: '200',
        results: { [own]: outcome },
        cluster: {}
      })
    }
  }
}

async function find () {
  await join()
  // The CID for the namespace is computed as in go-libp2p's routing discovery.
  const key = CID.createV1(raw.code, await sha256.digest(new TextEncoder().encode(options.topic)))
  const found = await until(`${options.want} among the providers`, async () => {
    try {
      const signal = AbortSignal.timeout(3_000)
      for await (const provider of node.contentRouting.findProviders(key, { signal })) {
        if (provider.id.toString() === options.want) return provider
      }
    } catch (error) {
      if (error.name !== 'TimeoutError') print({ retried: error.message })
    }
  })
  print({ provider: found.id.toString(), addresses: found.multiaddrs.map(String) })
}

function fail (error) {
  process.stderr.write(`${error.stack ?? error}\n`)
  process.exit(1)
}

process.on('unhandledRejection', fail)
const roles = { head, worker, find }
try {
  await roles[role]()
  // Everything that was sent has been read. Closing all connections first would only take time.
  process.exit(0)
} catch (error) {
  fail(error)
}
