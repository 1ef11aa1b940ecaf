// Runs a built `triptych` against peers of js-libp2p: see peer.mjs.
//
//   node run.mjs path/to/triptych [name of a case]
//
// Needs only a loopback interface. All ports are free, and all directories are temporary.

import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { CID } from 'multiformats/cid'
import * as raw from 'multiformats/codecs/raw'
import { sha256 } from 'multiformats/hashes/sha2'

const here = dirname(fileURLToPath(import.meta.url))
const [program, only] = process.argv.slice(2)
if (program == null) {
  process.stderr.write('usage: run.mjs path/to/triptych\n')
  process.exit(2)
}
const GENERAL = 'blockless/b7s/general'
const METHOD = 'hello.wasm'
const WITHIN_MS = 30_000
const run = promisify(execFile)

const dir = await mkdtemp(join(tmpdir(), 'triptych-interop-'))
const greeting = join(here, '../../assets/functions', METHOD)
const cid = CID.createV1(raw.code, await sha256.digest(await readFile(greeting))).toString()

/** Creates a function store with the greeting, and checks its content id. */
async function functions (name) {
  const folder = join(dir, name)
  const { stdout } = await run(program, ['function', 'add', '--function-db', folder, greeting])
  same('the content id', stdout, `${cid}\n`)
  return folder
}

/** Child processes of one case. */
class Children {
  #all = []

  start (command, args) {
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    const started = { child, lines: [], errors: '', code: null }
    child.stderr.on('data', (text) => { started.errors += text })
    child.on('exit', (code) => { started.code = code ?? -1 })
    createInterface({ input: child.stdout }).on('line', (line) => {
      try { started.lines.push(JSON.parse(line)) } catch { started.errors += `${line}\n` }
    })
    this.#all.push(started)
    return started
  }

  node (...args) {
    return this.start(program, ['node', '--address', '127.0.0.1', '--gateways', 'none', ...args])
  }

  peer (...args) {
    // Node 20 supports WebSockets only with a flag.
    const flags = globalThis.WebSocket == null ? ['--experimental-websocket'] : []
    return this.start(process.execPath, [...flags, join(here, 'peer.mjs'), ...args])
  }

  async stop () {
    for (const { child } of this.#all) child.kill('SIGTERM')
    for (const started of this.#all) {
      await until('a child to end', () => started.code !== null).catch(() => started.child.kill('SIGKILL'))
    }
  }

  logs () {
    return this.#all.map(({ child, lines, errors }) =>
      `${child.spawnargs.join(' ')}\n${lines.map((line) => JSON.stringify(line)).join('\n')}\n${errors}`).join('\n')
  }
}

async function until (what, look) {
  const deadline = Date.now() + WITHIN_MS
  for (;;) {
    const found = look()
    if (found != null && found !== false) return found
    if (Date.now() > deadline) throw new Error(`waited ${WITHIN_MS} ms for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

function line (started, what, pick) {
  return until(what, () => {
    const found = started.lines.find(pick)
    if (found == null && started.code !== null) throw new Error(`exited with ${started.code} before ${what}`)
    return found
  })
}

async function address (started, pick = () => true) {
  const host = await line(started, 'its addresses', ({ message }) => message === 'created host')
  return host.addresses.find(pick)
}

async function restApi (started) {
  const api = await line(started, 'its REST API', ({ message }) => message === 'Node API starting')
  return `http://${api.address ?? `127.0.0.1${api.port}`}`
}

async function execute (api, nodes) {
  const response = await fetch(`${api}/api/v1/functions/execute`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ function_id: cid, method: METHOD, config: { number_of_nodes: nodes } })
  })
  return await response.json()
}

function same (what, got, want) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)]
  if (a !== b) throw new Error(`${what} is ${a}, not ${b}`)
}

/** A js-libp2p head executes a function on our worker. Returns its result. */
async function jsHead (children, generation, dial) {
  const head = children.peer(
    'head', '--dial', dial, '--function', cid, '--method', METHOD, '--generation', generation)
  const result = await line(head, 'the result', ({ stdout }) => stdout != null)
  same('the exit code', result.exit_code, 0)
  // The function prints its environment.
  if (!result.stdout.includes('GREETED=js')) throw new Error(`it printed ${result.stdout}`)
  return result
}

const ourWorker = async (children, ...args) =>
  children.node('--role', 'worker', '--function-db', await functions('worker'), ...args)

const ourHead = async (children) => {
  const head = children.node(
    '--role', 'head', '--rest-api', '127.0.0.1:0', '--function-db', await functions('head'))
  return { head, api: await restApi(head), dial: await address(head) }
}

async function jsWorker (children, generation, dial, stdout) {
  const peer = children.peer(
    'worker', '--dial', dial, '--stdout', stdout, '--generation', generation)
  return (await line(peer, 'its id', ({ peer }) => peer != null)).peer
}

/** Our head executes a function on a js-libp2p worker. */
async function headWithJsWorker (children, generation) {
  const { api, dial } = await ourHead(children)
  const worker = await jsWorker(children, generation, dial, `from js ${generation}\n`)
  const answer = await execute(api, 1)
  same('the answer', [answer.code, answer.cluster, answer.results], ['200', { peers: [worker] }, [{
    result: { stdout: `from js ${generation}\n`, stderr: '', exit_code: 0 },
    peers: [worker],
    frequency: 100
  }]])
}

const cases = {
  'js head U, our worker': async (children) =>
    jsHead(children, 'U', await address(await ourWorker(children))),

  'js head S, our worker': async (children) =>
    jsHead(children, 'S', await address(await ourWorker(children))),

  'our head, js worker U': (children) => headWithJsWorker(children, 'U'),

  'our head, js worker S': (children) => headWithJsWorker(children, 'S'),

  'our head, our worker and a js worker agree': async (children) => {
    const { api, dial } = await ourHead(children)
    const worker = await ourWorker(children, '--boot-nodes', dial)
    const ours = (await address(worker)).split('/p2p/')[1]
    const alone = await execute(api, 1)
    same('the answer of ours', [alone.code, alone.cluster.peers], ['200', [ours]])
    const { stdout } = alone.results[0].result
    const ids = [await jsWorker(children, 'U', dial, stdout), ours].sort()
    const answer = await execute(api, 2)
    same('the answer', [answer.code, answer.cluster.peers, answer.results], ['200', ids, [{
      result: { stdout, stderr: '', exit_code: 0 }, peers: ids, frequency: 100
    }]])
  },

  'js finds our nodes on their topic through Kademlia': async (children) => {
    const { dial } = await ourHead(children)
    const worker = await ourWorker(children, '--boot-nodes', dial)
    const want = (await address(worker)).split('/p2p/')[1]
    const finder = children.peer('find', '--dial', dial, '--topic', GENERAL, '--want', want)
    const found = await line(finder, 'the provider', ({ provider }) => provider != null)
    if (found.addresses.length === 0) throw new Error('it has no address')
  },

  'js head U over a websocket, our worker': async (children) => {
    const worker = await ourWorker(children, '--websocket')
    await jsHead(children, 'U', await address(worker, (at) => at.includes('/ws/')))
  }
}

let nFailed = 0
for (const [name, play] of Object.entries(cases)) {
  if (only != null && !name.includes(only)) continue
  const children = new Children()
  const began = Date.now()
  try {
    await play(children)
    process.stdout.write(`ok     ${name} (${Date.now() - began} ms)\n`)
  } catch (error) {
    nFailed += 1
    process.stdout.write(`FAILED ${name}: ${error.message}\n${children.logs()}\n`)
  } finally {
    await children.stop()
  }
}
await rm(dir, { recursive: true, force: true })
process.exit(nFailed === 0 ? 0 : 1)
