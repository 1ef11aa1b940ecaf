// The portal with mouse and keyboard: sign-up, keys, passwords.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Browser, said, until } from './browser.mjs';

const [program, browserProgram, pictures] = process.argv.slice(2);
const NAME = 'ada@example.org';
const PASSWORD = 'correct horse battery';
const NEW_PASSWORD = 'staple of a new kind';
const folder = mkdtempSync(join(tmpdir(), 'portal-service-'));

let base;
let browser;
const status = () => browser.value('document.getElementById("status").textContent');
const alert = () => browser.value('document.getElementById("alert").textContent');
const says = (text) => until(`the page says ${text}`, async () => (await status()) === text);
const warns = (text) => until(`the page warns ${text}`, async () => (await alert()) === text);
const fresh = () => browser.value('document.getElementById("fresh-key").value');
const row = (name) => `[...document.querySelectorAll("#keys tr")].find((row) => row.cells[0].textContent === ${JSON.stringify(name)})`;
const ask = (button, name) => browser.click(`button[aria-label=${JSON.stringify(`${button} ${name}`)}]`);

function keys(...words) {
  return execFileSync(program, ['keys', ...words, '--data-dir', folder], { encoding: 'utf8' });
}

/** Returns the status of a request with a key. */
async function opens(key) {
  const response = await fetch(`${base}/api/datasets/`, { headers: { 'X-API-Key': key } });
  await response.text();
  return response.status;
}

async function picture(name, scheme = 'dark') {
  if (!pictures) return;
  await browser.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  await browser.picture(join(pictures, `${name}-${scheme}.png`));
}

/** Returns the contrast of two colors, given as expressions on the page of the form `rgb(…)`. */
const CONTRAST = `((a, b) => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number)
      .map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [x, y] = [light(a), light(b)].sort((x, y) => y - x);
  return (x + 0.05) / (y + 0.05);
})`;

/** Returns true if an element is visible in the window. */
const inView = (id) => browser.value(`(() => {
  const { top, bottom, height } = document.getElementById(${JSON.stringify(id)}).getBoundingClientRect();
  return height > 0 && top >= 0 && bottom <= innerHeight;
})()`);

const focused = () => browser.value('document.activeElement.id || document.activeElement.dataset.at || document.activeElement.tagName');
const focuses = (what) => until(`${what} has the focus`, async () => (await focused()) === what);
const size = (width, height) => browser.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });

/** Waits until the page shows a key other than `old`, and returns it. */
async function shown(old = '') {
  const key = await until('a key is shown', async () => {
    const key = await fresh();
    return key && key !== old && key;
  });
  assert.match(key, /^UP-[0-9a-f]{24}$/);
  return key;
}

const cases = {
  async 'signing up works by the keyboard alone'() {
    await browser.open(`${base}/portal`);
    await picture('log-in');
    await picture('log-in', 'light');
    await browser.value('document.getElementById("log-in-name").focus()');
    // The focus moves to the password, then the button, then the link.
    for (const _ of 'ppp') await browser.press('Tab');
    assert.equal(await browser.value('document.activeElement.id'), 'show-sign-up');
    await browser.press('Enter');
    assert.equal(await browser.value('document.activeElement.id'), 'sign-up-name');
    await browser.type(NAME);
    await browser.press('Tab');
    await browser.type(PASSWORD);
    await browser.press('Enter');
    await browser.holds('!document.getElementById("inside").hidden');
    assert.equal(await browser.value('document.getElementById("who-name").textContent'), NAME);
    assert.equal(await browser.value('document.cookie'), '', 'no script reads the session');
    await focuses('keys-title');
  },

  async 'a key is created, copied, shown once, and works'() {
    await browser.send('Browser.grantPermissions', {
      permissions: ['clipboardReadWrite', 'clipboardSanitizedWrite'], origin: base,
    });
    await browser.fill('#create-name', 'my bot');
    await browser.press('Enter');
    const key = await shown();
    assert.equal(await opens(key), 200);
    await picture('keys');
    await picture('keys', 'light');
    await browser.click('#copy');
    await says('The key is copied.');
    assert.equal(await browser.value('navigator.clipboard.readText()'), key);
    await browser.click('#hide');
    await browser.holds('document.getElementById("fresh").hidden');
    assert.ok(!(await browser.value('document.documentElement.outerHTML')).includes(key));
    await browser.reload();
    await browser.holds(`!!${row('my bot')}`);
    assert.ok(!(await browser.value('document.documentElement.outerHTML')).includes(key));
    assert.equal(await browser.value(`${row('my bot')}.cells[1].textContent`), `${key.slice(0, 7)}…`);
  },

  async 'a name is text and never a part of the page'() {
    const name = '<img src=x onerror=document.title=1> & "co"';
    await ask('Rename', 'my bot');
    await browser.holds('document.getElementById("ask").open');
    assert.equal(await browser.value('document.getElementById("ask-input").value'), 'my bot');
    await browser.type(name);
    await browser.press('Enter');
    await browser.holds(`!!${row(name)}`);
    assert.equal(await browser.value('document.querySelectorAll("main img").length'), 0);
    assert.notEqual(await browser.value('document.title'), '1');
    await browser.click('#keys button');
    await browser.holds('document.getElementById("ask").open');
    await browser.type('a bot');
    await browser.click('#ask-yes');
    await browser.holds(`!!${row('a bot')}`);
    assert.match(await focused(), /^rename-/, 'the focus is where the dialog was opened');
  },

  async 'names turn nothing around and hide nothing'() {
    const name = 'abc\u202edef\u200b';
    const escaped = 'abc\\u{202e}def\\u{200b}';
    // The service may refuse the name, but the response that arrived before stays visible.
    await browser.value(`(async () => {
      const real = fetch;
      fetch = async (...asked) => {
        fetch = real;
        const answer = await (await real(...asked)).json();
        answer.keys[0].name = ${JSON.stringify(name)};
        return new Response(JSON.stringify(answer), { headers: { 'content-type': 'application/json' } });
      };
      await loadKeys();
    })()`);
    assert.equal(await browser.value('document.querySelector("#keys bdi").textContent'), escaped);
    const html = await browser.value('document.documentElement.outerHTML');
    assert.ok(!/[\u200b-\u200f\u202a-\u202e\u2066-\u2069]/.test(html));
    await browser.value('loadKeys()');
    assert.equal(await browser.value('document.querySelectorAll("#who-name bdi").length'), 1);
  },

  async 'renewing gives another secret, and the old one opens nothing'() {
    await browser.fill('#create-name', 'second');
    await browser.click('#create button');
    const old = await shown();
    await ask('Renew', 'second');
    await browser.click('#ask-yes');
    const key = await shown(old);
    await until('the old secret is refused', async () => (await opens(old)) === 401);
    assert.equal(await opens(key), 200);
  },

  async 'a key is revoked only by who confirms it'() {
    const key = await fresh();
    await ask('Revoke', 'second');
    await browser.holds('document.getElementById("ask").open');
    await picture('revoke');
    assert.equal(await browser.value('document.activeElement.id'), 'ask-no', 'the safe answer has the focus');
    await browser.press('Enter');
    await browser.holds('!document.getElementById("ask").open');
    await ask('Revoke', 'second');
    await browser.holds('document.getElementById("ask").open');
    await browser.press('Escape');
    await browser.holds('!document.getElementById("ask").open');
    await until('the button has the focus again', async () => /^revoke-/.test(await focused()));
    assert.equal(await opens(key), 200);
    await ask('Revoke', 'second');
    await browser.click('#ask-yes');
    await says('The key second is revoked.');
    await focuses('keys-title');
    await until('the key is refused', async () => (await opens(key)) === 401);
    assert.equal(await browser.value(`${row('second')} === undefined`), true);
    await browser.click('#show-revoked');
    await browser.holds(`${row('second')}?.cells[2].textContent === 'revoked'`);
    assert.notEqual(await browser.value(`${row('second')}.cells[4].textContent`), 'never', 'it was used');
    await picture('revoked', 'light');
    assert.match(keys('list'), /revoked +UP-[0-9a-f]{4}… .* ada@example\.org +second\n/);
  },

  async 'another session is seen and ended by a new password'() {
    const other = await fetch(`${base}/api/accounts/log_in`, {
      method: 'POST', body: JSON.stringify({ name: NAME, password: PASSWORD }),
      headers: { 'user-agent': 'another browser', 'content-type': 'application/json' },
    });
    assert.equal(other.status, 200);
    const cookie = other.headers.get('set-cookie').split(';')[0];
    const inside = async () => (await fetch(`${base}/api/accounts/keys`, { headers: { cookie } })).status;
    assert.equal(await inside(), 200);
    await browser.reload();
    await browser.holds('document.getElementById("sessions").textContent.includes("another browser")');
    await browser.fill('#password-current', 'not this one');
    await browser.fill('#password-new', NEW_PASSWORD);
    await browser.press('Enter');
    await warns('The current password is wrong.');
    assert.ok(await inView('alert'), 'the message is in view, however far down the form is');
    await focuses('password-new');
    await picture('wrong-password');
    await browser.fill('#password-current', PASSWORD);
    await browser.fill('#password-new', NEW_PASSWORD);
    await browser.click('#password button');
    await says('The password is changed, and 1 other session ended.');
    assert.equal(await inside(), 401);
  },

  async 'who logs out comes in again by the new password alone'() {
    await browser.click('#log-out');
    await says('You are logged out.');
    await browser.fill('#log-in-name', NAME);
    await browser.fill('#log-in-password', PASSWORD);
    await browser.press('Enter');
    await warns('Wrong name or password.');
    assert.ok(await inView('alert'));
    await focuses('log-in-password');
    await size(390, 420);
    await browser.click('#log-in .main');
    await until('the message is in view on a small screen', () => inView('alert'));
    await size(1100, 900);
    await browser.fill('#log-in-password', NEW_PASSWORD);
    await browser.press('Enter');
    await browser.holds(`!!${row('a bot')}`);
  },

  async 'everything has a name for who does not see it'() {
    const { nodes } = await browser.send('Accessibility.getFullAXTree');
    const wanted = ['textbox', 'button', 'checkbox', 'link', 'table', 'region'];
    const found = nodes.filter(({ ignored, role }) => !ignored && wanted.includes(role?.value));
    assert.ok(found.length > 10, `${found.length} controls`);
    const nameless = found.filter(({ name, role }) => !name?.value && role.value !== 'table');
    assert.deepEqual(nameless.map(({ role, backendDOMNodeId }) => [role.value, backendDOMNodeId]), []);
    const headings = nodes.filter(({ ignored, role }) => !ignored && role?.value === 'heading');
    assert.ok(headings.some(({ name }) => name.value === 'API keys'));
  },

  async 'text can be read in the dark and in the light'() {
    const grounds = new Set();
    for (const scheme of ['dark', 'light']) {
      await browser.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
      const weak = await browser.value(`(() => {
        const parts = (color) => color.match(/[\\d.]+/g).map(Number);
        const light = (color) => {
          const [r, g, b] = parts(color).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (element) => {
          for (let at = element; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if ((parts(color)[3] ?? 1) > 0) return color;
          }
          return 'rgb(255, 255, 255)';
        };
        const weak = [];
        for (const element of document.querySelectorAll('main *, header *')) {
          const isText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
          if (!isText || !element.checkVisibility()) continue;
          const [a, b] = [light(getComputedStyle(element).color), light(ground(element))].sort((x, y) => y - x);
          const ratio = (a + 0.05) / (b + 0.05);
          if (ratio < 4.5) weak.push([element.tagName, element.textContent.trim().slice(0, 30), ratio.toFixed(2)]);
        }
        return weak;
      })()`);
      assert.deepEqual(weak, [], scheme);
      grounds.add(await browser.value('getComputedStyle(document.body).backgroundColor'));
    }
    assert.equal(grounds.size, 2);
  },

  async 'a narrow screen shows it all without scrolling aside'() {
    await browser.send('Emulation.setDeviceMetricsOverride', { width: 360, height: 740, deviceScaleFactor: 1, mobile: true });
    const wide = await browser.value('[innerWidth, document.documentElement.scrollWidth]');
    assert.deepEqual(wide, [360, 360]);
    await picture('narrow');
    await browser.send('Emulation.clearDeviceMetricsOverride');
  },

  async 'keys are cards on a narrow screen'() {
    await size(390, 844);
    const table = await browser.value(`(() => {
      const wide = document.querySelector('.wide');
      const button = document.querySelector('#keys button.danger').getBoundingClientRect();
      const label = getComputedStyle(document.querySelector('#keys td:nth-child(4)'), '::before').content;
      return [wide.scrollWidth <= wide.clientWidth, button.left >= 0 && button.right <= innerWidth, label];
    })()`);
    assert.deepEqual(table, [true, true, '"Created"']);
    const { nodes } = await browser.send('Accessibility.getFullAXTree');
    const roles = nodes.filter(({ ignored }) => !ignored).map(({ role }) => role?.value);
    for (const role of ['table', 'row', 'cell', 'columnheader']) assert.ok(roles.includes(role), role);
    await picture('cards');
    await picture('cards', 'light');
    await size(1100, 900);
  },

  async 'fields and buttons are seen by their borders'() {
    for (const scheme of ['dark', 'light']) {
      await browser.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
      const weak = await browser.value(`(() => {
        const contrast = ${CONTRAST};
        const ground = (element) => {
          for (let at = element.parentElement; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if (!/, 0\\)$/.test(color)) return color;
          }
          return 'rgb(255, 255, 255)';
        };
        return [...document.querySelectorAll('input:not([type=checkbox]):not(.unseen), button:not(.link)')]
          .filter((element) => element.type !== 'submit' || !element.matches('.main'))
          .map((element) => [element.id || element.textContent, contrast(getComputedStyle(element).borderTopColor, ground(element))])
          .filter(([, ratio]) => ratio < 3);
      })()`);
      assert.deepEqual(weak, [], scheme);
    }
  },

  async 'the contents of the API are folded on a narrow screen alone'() {
    const isShown = () => browser.value('document.querySelector("nav li a").checkVisibility({ contentVisibilityAuto: true })');
    for (const path of ['/api/docs/', '/api/accounts/docs/']) {
      await browser.send('Page.navigate', { url: base + path });
      await browser.holds('!!document.querySelector("main section")');
      assert.equal(await isShown(), true, `${path} is wide`);
      await picture('docs-wide');
      await size(390, 844);
      assert.equal(await isShown(), false, `${path} is narrow`);
      assert.deepEqual(await browser.value('[innerWidth, document.documentElement.scrollWidth]'), [390, 390]);
      assert.ok(await browser.value('document.querySelector("h1").getBoundingClientRect().top < innerHeight / 2'), 'the text begins on the first screen');
      await picture('docs-narrow');
      await browser.click('summary');
      assert.equal(await isShown(), true, 'it is unfolded');
      await picture('docs-unfolded');
      await size(1100, 900);
    }
    await browser.open(`${base}/portal`);
    await browser.holds(`!!${row('a bot')}`);
  },

  async 'an operator closes sign-up while the service runs'() {
    keys('sign-up', 'closed');
    await browser.click('#log-out');
    await says('You are logged out.');
    await browser.reload();
    assert.equal(await browser.value('document.getElementById("show-sign-up").checkVisibility()'), false);
    assert.equal(await browser.value('document.getElementById("no-sign-up").checkVisibility()'), true);
    await picture('closed');
  },

  async 'another site learns and changes nothing'() {
    const evil = base.replace('127.0.0.1', 'localhost');
    const response = await fetch(`${base}/api/accounts/log_out`, { method: 'POST', headers: { origin: evil } });
    assert.equal(response.status, 403);
  },

  async 'an account is deleted with its keys'() {
    await browser.fill('#log-in-name', NAME.toUpperCase());
    await browser.fill('#log-in-password', NEW_PASSWORD);
    await browser.press('Enter');
    await browser.holds('!document.getElementById("inside").hidden');
    await browser.fill('#create-name', 'last');
    await browser.press('Enter');
    const key = await shown();
    assert.equal(await opens(key), 200);
    await browser.holds(`!!${row('last')}`);
    await browser.click('#delete');
    await browser.holds('document.getElementById("ask").open');
    await browser.type(NEW_PASSWORD);
    await browser.press('Enter');
    await says('The account is deleted.');
    await until('the key is refused', async () => (await opens(key)) === 401);
  },

  async 'the page asked nobody but its service, and nothing went wrong on it'() {
    const foreign = browser.requests.filter((url) => !url.startsWith(`${base}/`) && !url.startsWith('data:') && url !== 'about:blank');
    assert.deepEqual(foreign, []);
    // The browser also logs refusals that the test intends.
    const wrong = browser.errors.filter((text) => !/status of (401|403) /.test(text));
    assert.deepEqual(wrong, []);
  },
};

const service = spawn(program, ['datasets', 'serve', '--listen', '127.0.0.1:0', '--data-dir', folder], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
let log = '';
let failed = 0;
try {
  const listens = said(service, service.stdout, /"address":"([^"]+)"/);
  service.stdout.on('data', (data) => { log += data; });
  base = `http://${(await listens)[1]}`;
  browser = await Browser.start(browserProgram);
  await browser.send('Emulation.setDeviceMetricsOverride', { width: 1100, height: 900, deviceScaleFactor: 1, mobile: false });
  for (const [name, run] of Object.entries(cases)) {
    const began = Date.now();
    try {
      await run();
      console.log(`ok ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}: ${error.stack}`);
      if (pictures) await browser.picture(join(pictures, 'failed.png'));
      break;
    }
  }
  for (const secret of [PASSWORD, NEW_PASSWORD, /UP-[0-9a-f]{5}/, /triptych_session/]) {
    assert.equal(log.search(secret), -1, 'the log holds no secret');
  }
} finally {
  await browser?.stop();
  const gone = new Promise((resolve) => { service.once('exit', resolve); });
  service.kill('SIGTERM');
  await gone;
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
}
console.log(failed ? 'the portal failed' : `the portal passed ${Object.keys(cases).length} cases`);
process.exitCode = failed ? 1 : 0;
