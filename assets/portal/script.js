// The page of accounts and keys. It speaks to /api/accounts of the service it came from, and to
// nobody else. Text of users is set as text, never as HTML.
'use strict';

const $ = (id) => document.getElementById(id);

/** Makes a call, and returns its answer; throws what the service says is wrong. */
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

function say(text) { $('alert').textContent = ''; $('status').textContent = text; }
function warn(text) { $('status').textContent = ''; $('alert').textContent = text; }

/** Runs what a button or form does; it cannot be pressed again meanwhile. */
async function work(source, action) {
  const buttons = source.matches('button') ? [source] : [...source.querySelectorAll('button')];
  buttons.forEach((button) => { button.disabled = true; });
  say('');
  try {
    await action();
  } catch (error) {
    warn(error.message);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
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

/** Asks before something is done; the answer is the field's text, or null for no. */
function ask({ title, text, yes, danger = false, label = '', type = 'text', value = '' }) {
  const dialog = $('ask');
  const input = $('ask-input');
  $('ask-title').textContent = title;
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

/** A moment as people read it, with the exact one behind it. */
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

function cell(content, className = '') {
  const element = document.createElement('td');
  element.className = className;
  element.append(content);
  return element;
}

function button(text, name, action, className = '') {
  const element = document.createElement('button');
  element.type = 'button';
  element.textContent = text;
  element.className = className;
  element.setAttribute('aria-label', `${text} ${name}`);
  element.addEventListener('click', () => work(element, action));
  return element;
}

function keyRow(key) {
  const row = document.createElement('tr');
  row.dataset.id = key.id;
  const isValid = key.state === 'valid';
  if (!isValid) row.className = 'gone';
  const state = document.createElement('span');
  state.className = key.state;
  state.textContent = key.state;
  const actions = cell('', 'actions');
  if (isValid) {
    actions.append(
      button('Rename', key.name, () => rename(key)),
      button('Renew', key.name, () => renew(key)),
      button('Revoke', key.name, () => revoke(key), 'danger'),
    );
  }
  row.append(
    cell(key.name, 'name'), cell(key.prefix ? `${key.prefix}…` : 'UP-…', 'mono'), cell(state),
    cell(time(key.created_at)), cell(time(key.last_used_at)), actions,
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
  const name = await ask({ title: 'Rename the key', text: '', yes: 'Rename', label: 'Name', value: key.name });
  if (name === null) return;
  await call('PATCH', `keys/${key.id}`, { name });
  await loadKeys();
  say(`The key is now called ${name}.`);
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

/** Shows a key this once. */
function reveal(key) {
  $('fresh-title').textContent = `The key ${key.name}`;
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
    client.textContent = session.client || 'a program without a name';
    const since = document.createElement('span');
    since.className = 'hint';
    since.append('since ', time(session.created_at));
    const end = session.is_current ? 'this one' : button('End', `the session of ${session.client}`, async () => {
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

/** Shows the page of an account, or the forms where nobody is logged in. */
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
  $('who-name').textContent = account.name;
  $('password-user').value = account.name;
  await Promise.all([loadKeys(), loadSessions()]);
}

/** Shows one of the two forms outside. */
function showForm(id) {
  const isSignUp = id === 'sign-up';
  $('sign-up').hidden = !isSignUp;
  $('log-in').hidden = isSignUp;
  $('outside-title').textContent = isSignUp ? 'Sign up' : 'Log in';
  say('');
  $(`${id}-name`).focus();
}

onSubmit('log-in', async (fields) => show(await call('POST', 'log_in', fields)));
onSubmit('sign-up', async (fields) => show(await call('POST', 'sign_up', fields)));
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
  // Pages that did not come over TLS or from this machine have no clipboard: the selection stays.
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
