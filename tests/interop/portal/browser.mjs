// A headless browser that is controlled with its DevTools protocol.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Longest wait for a condition. */
const WITHIN_MS = 60_000;

const FLAGS = [
  '--headless', '--disable-gpu', '--disable-quic', '--no-first-run', '--no-default-browser-check',
  '--disable-background-networking', '--disable-component-update', '--disable-sync',
  '--disable-dev-shm-usage', '--remote-debugging-port=0',
];

/** Waits until `look` returns a truthy value, and returns it. */
export async function until(what, look) {
  const end = Date.now() + WITHIN_MS;
  let last;
  for (;;) {
    try {
      last = await look();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`${what}: not within ${WITHIN_MS / 1000} s; last: ${last}`);
    await new Promise((resolve) => { setTimeout(resolve, 25); });
  }
}

/** Waits until the output of a process matches `pattern`, and returns the match. */
export function said(child, stream, pattern) {
  return new Promise((resolve, reject) => {
    let text = '';
    child.once('exit', (code) => reject(new Error(`it ended (${code}): ${text}`)));
    stream.setEncoding('utf8');
    stream.on('data', (data) => {
      text = (text + data).slice(-100_000);
      const match = pattern.exec(text);
      if (match) resolve(match);
    });
  });
}

/** A browser with one open page. */
export class Browser {
  #socket;
  #session;
  #asked = new Map();
  #next = 1;
  /** All URLs that the page requested. */
  requests = [];
  /** Exceptions and logged errors of the page. */
  errors = [];

  static async start(program) {
    const self = new Browser();
    self.folder = mkdtempSync(join(tmpdir(), 'portal-browser-'));
    const flags = process.getuid?.() === 0 ? [...FLAGS, '--no-sandbox'] : FLAGS;
    self.child = spawn(program, [...flags, `--user-data-dir=${self.folder}`, 'about:blank'], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, HOME: self.folder, DBUS_SESSION_BUS_ADDRESS: 'disabled:' },
    });
    const [, address] = await said(self.child, self.child.stderr, /DevTools listening on (ws:\S+)/);
    self.#socket = new WebSocket(address);
    await new Promise((resolve, reject) => {
      self.#socket.onopen = resolve;
      self.#socket.onerror = reject;
    });
    self.#socket.onmessage = ({ data }) => self.#heard(JSON.parse(data));
    const { targetInfos } = await self.send('Target.getTargets');
    const { targetId } = targetInfos.find(({ type }) => type === 'page');
    ({ sessionId: self.#session } = await self.send('Target.attachToTarget', { targetId, flatten: true }));
    for (const domain of ['Page', 'Runtime', 'Network', 'Log', 'Accessibility']) await self.send(`${domain}.enable`);
    return self;
  }

  #heard({ id, method, params, result, error }) {
    if (id !== undefined) {
      const { resolve, reject } = this.#asked.get(id);
      this.#asked.delete(id);
      if (error) reject(new Error(error.message)); else resolve(result);
    } else if (method === 'Network.requestWillBeSent') {
      this.requests.push(params.request.url);
    } else if (method === 'Runtime.exceptionThrown') {
      this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    } else if (method === 'Log.entryAdded' && params.entry.level === 'error') {
      this.errors.push(`${params.entry.text} ${params.entry.url ?? ''}`);
    }
  }

  send(method, params = {}) {
    const id = this.#next++;
    this.#socket.send(JSON.stringify({ id, method, params, sessionId: this.#session }));
    return new Promise((resolve, reject) => this.#asked.set(id, { resolve, reject }));
  }

  /** Evaluates an expression on the page. */
  async value(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', {
      expression, awaitPromise: true, returnByValue: true, userGesture: true,
    });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description}`);
    return result.value;
  }

  /** Waits until an expression on the page is true. */
  holds(expression) {
    return until(expression, () => this.value(expression));
  }

  async open(url) {
    await this.send('Page.navigate', { url });
    await this.holds('document.body?.dataset.ready === "yes"');
  }

  async reload() {
    await this.value('delete document.body.dataset.ready');
    await this.send('Page.reload');
    await this.holds('document.body?.dataset.ready === "yes"');
  }

  /** Presses a key, such as `Tab` or `Enter`. */
  async press(key) {
    const codes = { Tab: 9, Enter: 13, Escape: 27, Space: 32 };
    const code = { key: key === 'Space' ? ' ' : key, code: key, windowsVirtualKeyCode: codes[key] };
    const text = { Enter: '\r', Space: ' ' }[key];
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', ...code, ...(text && { text }) });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...code });
  }

  /** Replaces the text of the focused element. */
  async type(text) {
    await this.value('document.activeElement.select?.()');
    await this.send('Input.insertText', { text });
  }

  /** Clicks in the middle of the element that `selector` finds, as a mouse does, once it stays where it
   * is: what comes above it later moves it. */
  async click(selector) {
    let before = null;
    const find = () => this.value(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      if (!element || element.disabled) return null;
      element.scrollIntoView({ block: 'center' });
      const { x, y, width, height } = element.getBoundingClientRect();
      const [left, top] = [x + width / 2, y + height / 2];
      const hit = document.elementFromPoint(left, top);
      return width > 0 && (element.contains(hit) || hit?.contains(element)) ? [left, top] : null;
    })()`);
    const [x, y] = await until(`${selector} can be clicked`, async () => {
      const [last, at] = [before, await find()];
      before = at;
      return last && at && last[0] === at[0] && last[1] === at[1] ? at : null;
    });
    const mouse = { x, y, button: 'left', clickCount: 1 };
    await this.send('Input.dispatchMouseEvent', { type: 'mousePressed', ...mouse });
    await this.send('Input.dispatchMouseEvent', { type: 'mouseReleased', ...mouse });
  }

  async fill(selector, text) {
    await this.click(selector);
    await this.type(text);
  }

  /** Saves the visible part of the page as PNG. */
  async picture(path) {
    const { cssContentSize: { width, height } } = await this.send('Page.getLayoutMetrics');
    const clip = { x: 0, y: 0, width, height: Math.min(height, 2_000), scale: 1 };
    const { data } = await this.send('Page.captureScreenshot', { clip, captureBeyondViewport: true });
    writeFileSync(path, Buffer.from(data, 'base64'));
  }

  async stop() {
    const gone = new Promise((resolve) => { this.child.once('exit', resolve); });
    this.#socket?.close();
    this.child.kill('SIGKILL');
    await gone;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }
}
