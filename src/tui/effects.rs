//! Performs effects: calls the services through the client and sends events back.

mod alerts;
mod changes;
mod machine;
mod services;

use std::collections::HashMap;
use std::future::{Future, pending};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::alerts::notify::AlertSender;
use ::alerts::rules::Notify;
use ::alerts::state::Watcher;
use client::accounts::Accounts;
use client::datasets::{Datasets, NamedRow, Order, RowsQuery};
use client::error::ClientError;
use client::executions::CODE_IN_PROGRESS;
use client::functions::Functions;
use client::inference::Inference;
use client::transport::Transport;
use model::key::ApiKey;
use model::page::Limit;
use model::resolution::Resolution;
use task::backoff::Backoff;
use task::clock::Clock;
use task::file::{FileMode, write_atomic};
use task::group::Group;
use tokio::io::AsyncReadExt as _;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use wire::datasets::FlatRow;
use wire::functions::ExecuteResponse;

use crate::effects::services::ask;
use crate::event::{AlertEvent, Effect, Event, RunOrder, Timer};
use crate::local::{Addresses, LocalEvent, LocalStack};
use crate::profiles::ProfileStore;
use crate::state::resource::{Failure, Outcome};
use crate::state::runs::{Input, RunId, Window};
use crate::state::services::HeadId;

/// Clients of the services. A client is `None` if its address is unknown or invalid.
#[derive(Debug, Clone, Default)]
struct Clients {
    /// Clients of the heads, indexed by [`HeadId`].
    heads: Vec<Option<Functions>>,
    datasets: Option<Datasets>,
    inference: Option<Inference>,
    accounts: Option<Accounts>,
}

impl Clients {
    fn head(&self, head: HeadId) -> Option<Functions> {
        self.heads.get(head.0)?.clone()
    }
}

/// Paths of the user's files. `None` if the user has no configuration directory.
#[derive(Debug, Clone, Default)]
pub struct UserFiles {
    /// File of the form's presets.
    pub presets: Option<PathBuf>,
    /// File of the rules for alerts.
    pub rules: Option<PathBuf>,
}

/// Maximum number of events that wait for the event loop. If there are more, their senders wait.
const EVENTS_CAPACITY: usize = 256;

/// Performs effects, each in its own task.
pub(crate) struct Runner {
    /// Channel of `tasks`.
    events: mpsc::Sender<Event>,
    inbox: mpsc::Receiver<Event>,
    /// Channel of `calls`. A change of services replaces it, so that no event of earlier services
    /// arrives.
    call_events: mpsc::Sender<Event>,
    call_inbox: mpsc::Receiver<Event>,
    local: Arc<dyn LocalStack>,
    local_events: mpsc::Sender<LocalEvent>,
    local_inbox: mpsc::Receiver<LocalEvent>,
    profiles: Option<Arc<dyn ProfileStore>>,
    files: UserFiles,
    /// Calls to the services in use.
    calls: Group,
    /// Tasks that outlive a change of services.
    tasks: Group,
    /// Calls in progress, keyed by subject, such as `rows 3 5m`. A new call cancels an older call
    /// with the same subject, so the number of calls is bounded.
    running: HashMap<String, CancellationToken>,
    clients: Clients,
    /// States of the rules for alerts. The watch in progress holds the lock.
    watcher: Arc<Mutex<Watcher>>,
    /// Sender of alerts and its recipients, once the rules have been read.
    sender: Arc<parking_lot::Mutex<Option<(Notify, AlertSender)>>>,
    /// Locked while a preset in the file is changed.
    presets: Arc<Mutex<()>>,
    /// The pending timers, one of each kind.
    pub(crate) timers: HashMap<Timer, Instant>,
}

impl Runner {
    pub(crate) fn new(
        local: Arc<dyn LocalStack>,
        profiles: Option<Arc<dyn ProfileStore>>,
        files: UserFiles,
    ) -> Self {
        let (events, inbox) = mpsc::channel(EVENTS_CAPACITY);
        let (call_events, call_inbox) = mpsc::channel(EVENTS_CAPACITY);
        // If this channel is full, its senders drop log lines.
        let (local_events, local_inbox) = mpsc::channel(1_024);
        Self {
            events,
            inbox,
            call_events,
            call_inbox,
            local,
            local_events,
            local_inbox,
            profiles,
            files,
            calls: Group::default(),
            tasks: Group::default(),
            running: HashMap::new(),
            clients: Clients::default(),
            watcher: Arc::new(Mutex::new(Watcher::new(Vec::new(), None, Instant::now()))),
            sender: Arc::default(),
            presets: Arc::default(),
            timers: HashMap::new(),
        }
    }

    /// Waits for the next event of a task or of a local process. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Event {
        tokio::select! {
            Some(event) = self.inbox.recv() => event,
            Some(event) = self.call_inbox.recv() => event,
            Some(event) = self.local_inbox.recv() => Event::Local(event),
            // `self` has a sender of each channel.
            else => pending().await,
        }
    }

    /// Starts `effect` and returns without waiting for it. Returns the effect if only the event
    /// loop can perform it.
    pub(crate) fn perform(&mut self, effect: Effect) -> Option<Effect> {
        let effect = self.call_head(effect)?;
        let effect = self.call_datasets(effect)?;
        let effect = self.call_inference(effect)?;
        let effect = self.use_machine(effect)?;
        match effect {
            Effect::SetTimer(timer, wait) => {
                self.timers.insert(timer, Instant::now() + wait);
            }
            Effect::ClearTimer(timer) => {
                self.timers.remove(&timer);
            }
            Effect::Connect(addresses) => self.connect(&addresses),
            Effect::Cancel(id, at_head) => self.cancel(id, at_head),
            Effect::Probe => self.probe(),
            Effect::WatchRules => self.watch_rules(true),
            Effect::AddRule(section) => {
                let added = alerts::append(self.files.rules.clone(), section);
                let event = async move { Some(Event::Alerts(AlertEvent::Added(added.await))) };
                self.report("add a rule", event);
            }
            Effect::SendAlert(alert) => {
                if let Some((_, sender)) = &*self.sender.lock() {
                    sender.add(&alert, &Clock::system().now().to_string());
                }
            }
            Effect::Prepare(preparation) => {
                let prepared = changes::prepare(self.clients.clone(), preparation);
                let event = async move { Event::Prepared(preparation, prepared.await) };
                self.call("preparation", event);
            }
            Effect::Change(change) => {
                let (clients, events) = (self.clients.clone(), self.call_events.clone());
                self.call(changes::subject(&change), async move {
                    let result = changes::perform(clients, &change, events).await;
                    Event::Changed(change, result)
                });
            }
            Effect::DropChange(change) => self.drop_call(&changes::subject(&change)),
            effect => return Some(effect),
        }
        None
    }

    /// Cancels all calls and tasks, stops the local processes, and waits for their end.
    pub(crate) async fn shutdown(mut self) {
        // If the channel is closed, a process that reports its exit does not wait.
        self.local_inbox.close();
        self.tasks.stop();
        tokio::join!(self.calls.shutdown(), self.local.stop());
        self.tasks.shutdown().await;
    }

    fn connect(&mut self, addresses: &Addresses) {
        self.calls.stop();
        self.calls = Group::default();
        self.running.clear();
        (self.call_events, self.call_inbox) = mpsc::channel(EVENTS_CAPACITY);
        let open = |address: &str, key: Option<ApiKey>| {
            let transport = Transport::new(address, key);
            transport.map_err(|error| tracing::warn!(%error, "failed to use {address}")).ok()
        };
        let Addresses { heads, datasets, inference, api_key, head_token } = addresses;
        // Heads get only the token, the other services only the API key.
        let head = |address: &String| {
            Some(Functions::new(open(address, None)?.with_token(head_token.clone())))
        };
        let with_key = |address: &Option<String>| open(address.as_ref()?, api_key.clone());
        self.clients = Clients {
            heads: heads.iter().map(head).collect(),
            datasets: with_key(datasets).map(Datasets::new),
            inference: with_key(inference).map(Inference::new),
            // The dataset service has the accounts. They are protected by a session and not by the key.
            accounts: datasets.as_ref().and_then(|it| open(it, None)).map(Accounts::new),
        };
        self.watch_rules(false);
    }

    /// Cancels the call of a run, and the run itself if its head has accepted it.
    fn cancel(&mut self, id: RunId, at_head: Option<(HeadId, String)>) {
        self.drop_call(&format!("run {}", id.0));
        let Some((head, request_id)) = at_head else { return };
        if let Some(head) = self.clients.head(head) {
            self.calls.spawn("cancel a run", async move {
                if let Err(error) = head.cancel(&request_id).await {
                    tracing::warn!(%error, "failed to cancel run {request_id}; it continues on the head");
                }
            });
        }
    }

    fn drop_call(&mut self, subject: &str) {
        if let Some(call) = self.running.remove(subject) {
            call.cancel();
        }
    }

    /// Runs `work`, then sends the event that it returns. A change of services does not cancel
    /// `work`.
    fn report(
        &self,
        name: &'static str,
        work: impl Future<Output = Option<Event>> + Send + 'static,
    ) {
        let events = self.events.clone();
        self.tasks.spawn(name, async move {
            if let Some(event) = work.await {
                events.send(event).await.ok();
            }
        });
    }

    /// Runs `call`, then sends its event. Cancels an older call with the same subject.
    fn call(
        &mut self,
        subject: impl Into<String>,
        call: impl Future<Output: Into<Event>> + Send + 'static,
    ) {
        let events = self.call_events.clone();
        self.start(subject, async move {
            let event = call.await.into();
            events.send(event).await.ok();
        });
    }

    /// Calls `service`, then sends the event of the outcome. `what` names the call in a failure.
    /// Cancels an older call of this name.
    fn request<S: Send + 'static, T: Send, C>(
        &mut self,
        what: impl Into<String>,
        service: Option<S>,
        call: impl FnOnce(S) -> C + Send + 'static,
        event: impl FnOnce(Outcome<T>) -> Event + Send + 'static,
    ) where
        C: Future<Output = Result<T, ClientError>> + Send,
    {
        let what = what.into();
        let subject = what.clone();
        self.call(subject, async move {
            event(ask(service, &what, async move |it| call(it).await).await)
        });
    }

    fn start(
        &mut self,
        subject: impl Into<String>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.running.retain(|_, call| !call.is_cancelled());
        let token = CancellationToken::new();
        if let Some(older) = self.running.insert(subject.into(), token.clone()) {
            older.cancel();
        }
        self.calls.spawn("call", async move {
            // A cancelled token marks a finished call, which the next start removes from
            // `running`.
            let _done = token.clone().drop_guard();
            token.run_until_cancelled(work).await;
        });
    }
}

/// Describes a failed call to the user.
fn failure(what: &str, error: &ClientError) -> Failure {
    let why = match error {
        ClientError::Reach { address, .. } => format!("{address}: {}", error.why()),
        ClientError::Lost { .. } => error.to_string(),
        _ => error.why(),
    };
    Failure {
        what: what.to_owned(),
        why,
        next: error.next_step().to_owned(),
        status: error.status(),
        retry_after: error.retry_after(),
        is_timeout: matches!(error, ClientError::TimedOut { .. }),
    }
}

/// Returns the failure of a call to a service without an address.
fn absent(what: &str) -> Failure {
    Failure::new(what.to_owned(), "no address of the service is known", "name one in the profile")
}

/// Returns the failure of writing a file.
fn unwritten(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(what, error.to_string(), "name another file")
}

/// Writes `text` to `path`, readable only by the user. Creates the directory if it is missing.
pub(crate) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    write_atomic(path, text.as_bytes(), FileMode::Private)
}

/// Reads the text in the file at `path`, or `None` if there is no file.
async fn read_optional(path: &Path) -> std::io::Result<Option<String>> {
    match tokio::fs::read_to_string(path).await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => text.map(Some),
    }
}

/// Maximum time for which an unreachable head is polled. A restart takes about as long.
const LOST_WITHIN: Duration = Duration::from_secs(15);

/// Maximum size of a standard input. Heads refuse more than about 3 MiB.
const INPUT_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// Sends `order` and waits for its result.
async fn send_order(
    head: &Functions,
    datasets: Option<Datasets>,
    id: RunId,
    order: RunOrder,
    events: &mpsc::Sender<Event>,
) -> Outcome<ExecuteResponse> {
    let RunOrder { mut request, input, is_followed, .. } = order;
    match input {
        Input::Typed => {}
        Input::File(path) => request.config.stdin = Some(read_file(&path).await?),
        Input::Rows { dataset, window } => {
            request.config.stdin = Some(read_rows(datasets, &dataset, window).await?);
        }
    }
    request.config.is_async = is_followed.then_some(true);
    let what = format!("run {}", request.method);
    let response = head.execute(&request).await.map_err(|error| failure(&what, &error))?;
    if response.code != CODE_IN_PROGRESS {
        return Ok(response);
    }
    let request_id = response.request_id;
    // If sending fails, the screen is exiting and cancels this task soon.
    events.send(Event::RunAccepted(id, request_id.clone())).await.ok();
    let response = wait_for_result(head, id, &request_id, events).await?;
    if let Ok(body) = head.execution(&request_id).await {
        events.send(Event::RunReport(id, Box::new(body))).await.ok();
    }
    Ok(response)
}

/// Polls for the result of a run. Fails if the head does not know the run, or is unreachable for
/// [`LOST_WITHIN`].
async fn wait_for_result(
    head: &Functions,
    id: RunId,
    request_id: &str,
    events: &mpsc::Sender<Event>,
) -> Outcome<ExecuteResponse> {
    let what = format!("read the result of run {}", id.0);
    // The first wait is about as long as a local head needs for a warm function. The longest wait
    // is hardly noticed by a user and does not burden a head.
    let mut wait = Backoff::new(Duration::from_millis(25), Duration::from_millis(400));
    let mut lost_since: Option<Instant> = None;
    loop {
        sleep(wait.next_wait()).await;
        let problem = match head.result(request_id).await {
            Ok(response) if response.code != CODE_IN_PROGRESS => return Ok(response),
            Ok(_) => None,
            // The head responds with this status to an unknown execution.
            Err(error) if error.status() == Some(404) => {
                return Err(Failure::new(
                    what,
                    "the head does not know the run, since it was restarted in the meantime",
                    "^R runs it again",
                ));
            }
            Err(error) => Some(failure(&what, &error)),
        };
        match (problem, lost_since) {
            (Some(problem), Some(since)) if since.elapsed() > LOST_WITHIN => return Err(problem),
            (None, None) | (Some(_), Some(_)) => {}
            (problem, _) => {
                lost_since = problem.is_some().then(Instant::now);
                events.send(Event::RunUnreachable(id, problem)).await.ok();
            }
        }
    }
}

/// Replaces a leading `~/` with the home directory. In a command line, the shell does this.
pub(crate) fn expand_home(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Reads a file as standard input.
async fn read_file(path: &str) -> Outcome<String> {
    let failed = |why: String| Failure::new(format!("read {path}"), why, "correct the path");
    let text = async {
        let mut text = String::new();
        let mut start = tokio::fs::File::open(expand_home(path)).await?.take(INPUT_BYTES_MAX + 1);
        start.read_to_string(&mut text).await.map(|_| text)
    };
    let text = text.await.map_err(|error: std::io::Error| failed(error.to_string()))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(failed(format!("the file exceeds {INPUT_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Reads the latest rows of a dataset as standard input: one flat JSON object per line, oldest
/// first.
async fn read_rows(datasets: Option<Datasets>, name: &str, window: Window) -> Outcome<String> {
    let what = format!("read rows of {name}");
    let read = async |service| read_newest(&service, name, window).await;
    let text = ask(datasets, &what, read).await?.ok_or_else(|| {
        Failure::new(what.clone(), "no such dataset is visible", "choose one with ↑↓")
    })?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        let why = format!("the rows exceed {INPUT_BYTES_MAX} bytes");
        return Err(Failure::new(what, why, "choose a shorter window or a number of rows"));
    }
    Ok(text)
}

/// Reads the latest rows of the dataset `name` as lines, oldest first, or `None` if it is not
/// visible. Reads no page after [`INPUT_BYTES_MAX`] bytes.
async fn read_newest(
    service: &Datasets,
    name: &str,
    window: Window,
) -> Result<Option<String>, ClientError> {
    let Some(dataset) = service.find_by_name(name).await? else { return Ok(None) };
    let (n_wanted, span) = match window {
        Window::Count(n_rows) => (usize::try_from(n_rows).unwrap_or(usize::MAX), Duration::MAX),
        Window::Span(span) => (usize::MAX, span),
    };
    let newest = RowsQuery::newest(dataset.id, Resolution::Raw, Limit::clamp(n_wanted));
    let mut query = RowsQuery { order: Order::Descending, ..newest };
    let (mut lines, mut n_bytes, mut newest) = (Vec::new(), 0, None);
    loop {
        let page = service.rows(&query).await?;
        let mut is_last = page.next.is_none();
        for NamedRow { timestamp, values } in page.rows.into_rows() {
            // A period is counted back from the latest row, not from now: the rows can be old.
            let age = newest.get_or_insert(timestamp).since(timestamp);
            if age >= span || lines.len() >= n_wanted {
                is_last = true;
                break;
            }
            let values = values.into_iter().map(|(name, value)| (name, value.into()));
            let row = FlatRow { timestamp: timestamp.to_string(), values: values.collect() };
            let line = serde_json::to_string(&row).unwrap_or_default() + "\n";
            n_bytes += line.len() as u64;
            lines.push(line);
        }
        if is_last || lines.len() >= n_wanted || n_bytes > INPUT_BYTES_MAX {
            break;
        }
        query.after = page.next;
    }
    lines.reverse();
    Ok(Some(lines.concat()))
}

#[cfg(test)]
mod tests;
