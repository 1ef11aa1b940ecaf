//! Executes a function: reads its input, sends the request, and polls the head for the result.

use std::time::Duration;

use client::{
    datasets::{Datasets, NamedRow, Order, Rows, RowsQuery},
    error::ClientError,
    executions::CODE_UNDER_WAY,
    functions::Functions,
};
use model::{page::Limit, resolution::Resolution};
use task::backoff::Backoff;
use tokio::{
    io::AsyncReadExt as _,
    sync::mpsc,
    time::{Instant, sleep},
};
use wire::{datasets::FlatRow, functions::ExecuteResponse};

use super::{Clients, absent, failure, services::ask};
use crate::{
    event::{Event, RunOrder},
    state::{
        loadable::Failure,
        runs::{Input, RunId, Window},
    },
};

/// The first wait for a result: a warm function of a local head takes about as long.
const POLL_FIRST: Duration = Duration::from_millis(25);

/// The longest wait between two polls of a run: short for a user, long for a head.
const POLL_LONGEST: Duration = Duration::from_millis(400);

/// How long to poll a head that does not answer: as long as a restart takes.
const LOST_WITHIN: Duration = Duration::from_secs(15);

/// The most standard input sent: heads accept some 3 MiB, and refuse more.
const INPUT_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The status of an execution that a head does not know.
const NOT_FOUND: u16 = 404;

/// Executes `order`, sends events of its progress, and returns the event of its outcome.
pub(super) async fn execute(
    clients: Clients,
    id: RunId,
    order: Box<RunOrder>,
    events: mpsc::Sender<Event>,
) -> Event {
    let result = match clients.head(order.head) {
        Some(head) => send_order(&head, clients.datasets, id, *order, &events).await,
        None => Err(absent("run the function")),
    };
    Event::Executed(id, result.map(Box::new))
}

/// Sends `order`, and waits for its result.
async fn send_order(
    head: &Functions,
    datasets: Option<Datasets>,
    id: RunId,
    order: RunOrder,
    events: &mpsc::Sender<Event>,
) -> Result<ExecuteResponse, Failure> {
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
    if response.code != CODE_UNDER_WAY {
        return Ok(response);
    }
    let request_id = response.request_id;
    // Without a receiver this task is dropped soon.
    drop(events.send(Event::RunAccepted(id, request_id.clone())).await);
    let response = wait_for_result(head, id, &request_id, events).await?;
    if let Ok(body) = head.execution(&request_id).await {
        drop(events.send(Event::RunReport(id, Box::new(body))).await);
    }
    Ok(response)
}

/// Polls for the result until it is there, the head does not know the run, or does not answer for
/// [`LOST_WITHIN`].
async fn wait_for_result(
    head: &Functions,
    id: RunId,
    request_id: &str,
    events: &mpsc::Sender<Event>,
) -> Result<ExecuteResponse, Failure> {
    let what = format!("read the result of run {}", id.0);
    let mut wait = Backoff::new(POLL_FIRST, POLL_LONGEST);
    let mut lost_since: Option<Instant> = None;
    loop {
        sleep(wait.next_wait()).await;
        let problem = match head.result(request_id).await {
            Ok(response) if response.code != CODE_UNDER_WAY => return Ok(response),
            Ok(_) => None,
            Err(error) if error.status() == Some(NOT_FOUND) => {
                return Err(Failure::new(
                    what,
                    "the head does not know it, since it restarted meanwhile",
                    "^R runs it again",
                ));
            }
            Err(error) => Some(failure(&what, &error)),
        };
        match (problem, lost_since) {
            (None, Some(_)) => {
                lost_since = None;
                drop(events.send(Event::RunUnreachable(id, None)).await);
            }
            (Some(problem), None) => {
                lost_since = Some(Instant::now());
                drop(events.send(Event::RunUnreachable(id, Some(problem))).await);
            }
            (Some(problem), Some(since)) if since.elapsed() > LOST_WITHIN => return Err(problem),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

/// Reads a file as standard input.
async fn read_file(path: &str) -> Result<String, Failure> {
    let failed = |why: String| Failure::new(format!("read {path}"), why, "correct the path");
    let opened = tokio::fs::File::open(path).await.map_err(|error| failed(error.to_string()))?;
    let mut text = String::new();
    let mut start = opened.take(INPUT_BYTES_MAX + 1);
    start.read_to_string(&mut text).await.map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(failed(format!("it has more than {INPUT_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Reads the newest rows of a dataset as standard input: a flat JSON object a line, the oldest first.
async fn read_rows(
    datasets: Option<Datasets>,
    name: &str,
    window: Window,
) -> Result<String, Failure> {
    let what = format!("read rows of {name}");
    let read = async |service| read_newest(&service, name, window).await;
    let rows = ask(datasets, &what, read).await?.ok_or_else(|| {
        Failure::new(what.clone(), "no such dataset is visible", "choose one with ↑↓")
    })?;
    let lines = rows.into_iter().filter_map(|row| {
        let values = row.values.into_iter().map(|(name, value)| (name, value.into()));
        let row = FlatRow { timestamp: row.timestamp.to_string(), values: values.collect() };
        serde_json::to_string(&row).ok()
    });
    Ok(lines.map(|line| line + "\n").collect())
}

/// Reads the newest rows of the dataset called `name`, oldest first; `None` if it is not visible.
async fn read_newest(
    service: &Datasets,
    name: &str,
    window: Window,
) -> Result<Option<Vec<NamedRow>>, ClientError> {
    let Some(dataset) = service.find_by_name(name).await? else { return Ok(None) };
    let n_wanted = match window {
        Window::Count(n_rows) => Some(usize::try_from(n_rows).unwrap_or(usize::MAX)),
        Window::Span(_) => None,
    };
    let limit = Limit::clamp(n_wanted.unwrap_or(usize::MAX));
    let mut query = RowsQuery {
        order: Order::Descending,
        ..RowsQuery::newest(dataset.id, Resolution::Raw, limit)
    };
    let mut rows: Vec<NamedRow> = Vec::new();
    loop {
        let page = service.rows(&query).await?;
        let Rows::Raw(page_rows) = page.rows else { break };
        rows.extend(page_rows);
        // Measured from its newest row, whose timestamp may be far from the clock of this machine.
        if let (Window::Span(span), Some(newest)) = (window, rows.first().map(|row| row.timestamp))
        {
            let n_before = rows.len();
            rows.retain(|row| newest.since(row.timestamp) < span);
            if rows.len() < n_before {
                break;
            }
        }
        if n_wanted.is_some_and(|n| rows.len() >= n) || page.next.is_none() {
            break;
        }
        query.after = page.next;
    }
    rows.truncate(n_wanted.unwrap_or(usize::MAX));
    rows.reverse();
    Ok(Some(rows))
}
