// The page of accounts and keys. It sends requests only to /api/accounts of its own service. Text of
// users is set as text, never as HTML.
'use strict';

const $ = (id) => document.getElementById(id);

/** Sends a request, and returns the response. Throws the error of the service. */
async function call(method, path, body) {
  let response;
  try {
    response = await fetch(`/api/accounts/${path}`, {
      method,
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'same-origin',
    });
  } catch {
    throw new Error('The service does not answer. Is it running?');
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  if (response.status === 401 && path !== 'log_in') {
    show(null);
    throw new Error('You are not logged in any more.');
  }
  const text = answer.error ?? `The service answered ${response.status}.`;
  throw new Error(text.charAt(0).toUpperCase() + text.slice(1) + '.');
}

/** Escapes control and format characters in text of users, which could hide or reorder other text. */
function plain(text) {
  const unsafe = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
  return text.replace(unsafe, (letter) => `\\u{${letter.charCodeAt(0).toString(16)}}`);
}

/** Creates an element for text of users, whose direction does not affect its surroundings. */
function name(text) {
  const element = document.createElement('bdi');
  element.textContent = plain(text);
  return element;
}

function say(text) { $('alert').textContent = ''; $('status').textContent = plain(text); }
function warn(text) { $('status').textContent = ''; $('alert').textContent = plain(text); }

/**
 * Restores a lost focus: to `element`, to the button that replaced it, or to the heading of its
 * section.
 */
function refocus(element, heading) {
  // A button of a closed dialog may still have the focus.
  const active = document.activeElement;
  if (active && active !== document.body && active.checkVisibility()) return;
  const again = element.dataset.at && document.querySelector(`[data-at="${element.dataset.at}"]`);
  const places = [element, again, heading, ...document.querySelectorAll('#outside input')];
  places.find((place) => place?.isConnected && place.checkVisibility())?.focus();
}

/** Runs the action of a button or form, which is disabled meanwhile. */
async function work(source, action) {
  const buttons = source.matches('button') ? [source] : [...source.querySelectorAll('button')];
  const focused = source.contains(document.activeElement) ? document.activeElement : source;
  const heading = source.closest('section')?.querySelector('h1, h2');
  buttons.forEach((button) => { button.disabled = true; });
  say('');
  try {
    await action();
  } catch (error) {
    warn(error.message);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
    refocus(focused, heading);
  }
}

function onSubmit(id, action) {
  const form = $(id);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    work(form, () => action(Object.fromEntries(new FormData(form)), form));
  });
}

function onClick(id, action) {
  $(id).addEventListener('click', () => work($(id), action));
}

/** Asks for confirmation. Returns the text of the field, or null if canceled. */
function ask({ title, text, yes, danger = false, label = '', type = 'text', value = '' }) {
  const dialog = $('ask');
  const input = $('ask-input');
  $('ask-title').textContent = plain(title);
  $('ask-text').textContent = text;
  $('ask-yes').textContent = yes;
  $('ask-yes').className = danger ? 'danger' : 'main';
  $('ask-field').hidden = !label;
  $('ask-label').textContent = label;
  input.required = Boolean(label);
  input.type = type;
  input.value = value;
  dialog.returnValue = '';
  dialog.showModal();
  (label ? input : $('ask-no')).focus();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      const answer = dialog.returnValue === 'yes' ? input.value : null;
      input.value = '';
      resolve(answer);
    }, { once: true });
  });
}

/** Creates an element with a readable time and the exact one as its title. */
function time(text) {
  const element = document.createElement('time');
  if (!text) {
    element.textContent = 'never';
    return element;
  }
  element.dateTime = text;
  element.title = text;
  element.textContent = new Date(text).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
  return element;
}

/** Creates a cell of a row. Narrow screens show `label` in front of it. */
function cell(label, content, className = '') {
  const element = document.createElement('td');
  element.setAttribute('role', 'cell');
  element.className = className;
  element.dataset.label = label;
  element.append(content);
  return element;
}

/** Creates a button for `what`. `at` identifies the button that replaces it. */
function button(text, what, at, action, className = '') {
  const element = document.createElement('button');
  element.type = 'button';
  element.dataset.at = at;
  element.textContent = text;
  element.className = className;
  element.setAttribute('aria-label', `${text} ${plain(what)}`);
  element.addEventListener('click', () => work(element, action));
  return element;
}

function keyRow(key) {
  const row = document.createElement('tr');
  row.dataset.id = key.id;
  row.setAttribute('role', 'row');
  const isValid = key.state === 'valid';
  if (!isValid) row.className = 'gone';
  const state = document.createElement('span');
  state.className = key.state;
  state.textContent = key.state;
  const actions = cell('', '', 'actions');
  if (isValid) {
    actions.append(
      button('Rename', key.name, `rename-${key.id}`, () => rename(key)),
      button('Renew', key.name, `renew-${key.id}`, () => renew(key)),
      button('Revoke', key.name, `revoke-${key.id}`, () => revoke(key), 'danger'),
    );
  }
  row.append(
    cell('Name', name(key.name), 'name'), cell('Begins with', key.prefix ? `${key.prefix}…` : 'UP-…', 'mono'),
    cell('State', state), cell('Created', time(key.created_at)), cell('Last used', time(key.last_used_at)), actions,
  );
  return row;
}

async function loadKeys() {
  const { keys } = await call('GET', 'keys');
  const isShown = (key) => key.state === 'valid' || $('show-revoked').checked;
  const shown = keys.filter(isShown);
  $('keys').replaceChildren(...shown.map(keyRow));
  $('no-keys').hidden = shown.length > 0;
}

async function rename(key) {
  const to = await ask({ title: 'Rename the key', text: '', yes: 'Rename', label: 'Name', value: key.name });
  if (to === null) return;
  await call('PATCH', `keys/${key.id}`, { name: to });
  await loadKeys();
  say(`The key is now called ${to}.`);
}

async function renew(key) {
  const answer = await ask({
    title: `Renew ${key.name}?`,
    text: 'It gets a new secret and keeps what it owns. The secret it has now stops working at once.',
    yes: 'Renew key',
  });
  if (answer === null) return;
  reveal(await call('POST', `keys/${key.id}/renew`));
  await loadKeys();
}

async function revoke(key) {
  const answer = await ask({
    title: `Revoke ${key.name}?`,
    text: 'Programs that use it are refused at once. This cannot be undone.',
    yes: 'Revoke key',
    danger: true,
  });
  if (answer === null) return;
  await call('DELETE', `keys/${key.id}`);
  conceal();
  await loadKeys();
  say(`The key ${key.name} is revoked.`);
}

/** Shows a new key, which is possible only once. */
function reveal(key) {
  $('fresh-title').replaceChildren('The key ', name(key.name));
  $('fresh-key').value = key.api_key;
  $('try').textContent = `curl -H 'X-API-Key: ${key.api_key}' ${location.origin}/api/datasets/`;
  $('fresh').hidden = false;
  $('fresh-title').focus();
}

function conceal() {
  $('fresh-key').value = '';
  $('try').textContent = '';
  $('fresh').hidden = true;
}

async function loadSessions() {
  const { sessions } = await call('GET', 'sessions');
  const item = (session) => {
    const element = document.createElement('li');
    const client = document.createElement('span');
    client.className = 'client';
    client.append(name(session.client || 'a program without a name'));
    const since = document.createElement('span');
    since.className = 'hint';
    since.append('since ', time(session.created_at));
    const end = session.is_current ? 'this one' : button('End', `the session of ${session.client}`, `end-${session.id}`, async () => {
      await call('DELETE', `sessions/${session.id}`);
      await loadSessions();
      say('The session is ended.');
    });
    element.append(client, since, end);
    return element;
  };
  $('sessions').replaceChildren(...sessions.map(item));
  $('end-others').hidden = sessions.length < 2;
}

/** Shows the page of the account, or the forms if no user is logged in. */
async function show(account) {
  const isIn = account !== null;
  $('who').hidden = !isIn;
  $('inside').hidden = !isIn;
  $('outside').hidden = isIn;
  conceal();
  document.querySelectorAll('form').forEach((form) => form.reset());
  $('keys').replaceChildren();
  $('sessions').replaceChildren();
  if (!isIn) return;
  $('who-name').replaceChildren(name(account.name));
  $('password-user').value = account.name;
  await Promise.all([loadKeys(), loadSessions()]);
}

/** Shows the page of the account after a login, and moves the focus there. */
async function enter(account) {
  await show(account);
  $('keys-title').focus();
}

/** Shows the form to log in or to sign up. */
function showForm(id) {
  const isSignUp = id === 'sign-up';
  $('sign-up').hidden = !isSignUp;
  $('log-in').hidden = isSignUp;
  $('outside-title').textContent = isSignUp ? 'Sign up' : 'Log in';
  say('');
  $(`${id}-name`).focus();
}

onSubmit('log-in', async (fields) => enter(await call('POST', 'log_in', fields)));
onSubmit('sign-up', async (fields) => enter(await call('POST', 'sign_up', fields)));
onSubmit('create', async ({ name }, form) => {
  reveal(await call('POST', 'keys', { name }));
  form.reset();
  await loadKeys();
});
onSubmit('password', async ({ current, new: next }, form) => {
  const { n_done: ended } = await call('POST', 'password', { current, new: next });
  form.reset();
  await loadSessions();
  say(`The password is changed${ended ? `, and ${ended} other session${ended > 1 ? 's' : ''} ended` : ''}.`);
});
onClick('log-out', async () => {
  await call('POST', 'log_out');
  await show(null);
  showForm('log-in');
  say('You are logged out.');
});
onClick('end-others', async () => {
  await call('DELETE', 'sessions');
  await loadSessions();
  say('Every other session is ended.');
});
onClick('delete', async () => {
  const password = await ask({
    title: 'Delete the account?',
    text: 'Its keys are revoked for good. Type the password to go on.',
    yes: 'Delete account', danger: true, label: 'Password', type: 'password',
  });
  if (password === null) return;
  await call('DELETE', 'me', { password });
  await show(null);
  showForm('log-in');
  say('The account is deleted.');
});
onClick('copy', async () => {
  const field = $('fresh-key');
  field.select();
  // Without TLS or loopback there is no clipboard, but the text remains selected.
  try {
    await navigator.clipboard.writeText(field.value);
    say('The key is copied.');
  } catch {
    warn('The browser does not let this page copy. The key is selected: press Ctrl+C.');
  }
});
onClick('hide', async () => { conceal(); $('create-name').focus(); });
$('ask-no').addEventListener('click', () => $('ask').close());
$('show-sign-up').addEventListener('click', () => showForm('sign-up'));
$('show-log-in').addEventListener('click', () => showForm('log-in'));
$('show-revoked').addEventListener('change', () => work($('show-revoked').parentElement, loadKeys));

(async () => {
  try {
    const me = await call('GET', 'me');
    const isOpen = me.sign_up === 'open';
    $('to-sign-up').hidden = !isOpen;
    $('no-sign-up').hidden = isOpen;
    await show(me.account);
  } catch (error) {
    warn(error.message);
  } finally {
    document.body.dataset.ready = 'yes';
  }
})();
