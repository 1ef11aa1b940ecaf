//! The runs of this session, from their requests to their result groups.

pub(crate) mod live;

use std::collections::VecDeque;
use std::time::Duration;

use model::timestamp::Timestamp;
use strum::{IntoStaticStr, VariantArray};
use wire::executions::{ClusterEvent, ClusterEventKind, ExecutionBody};
use wire::functions::{ExecuteRequest, ExecuteResponse};

use crate::state::resource::{Failure, Outcome};
use crate::state::runs::live::{Early, RunProgress};
use crate::state::services::HeadId;

/// Maximum number of runs. The oldest run is evicted. A result can take some hundred kilobytes.
const RUNS_MAX: usize = 200;

/// Number of a run within this session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(pub u32);

/// Phase of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Phase {
    /// The response is pending.
    Waiting,
    /// The head returned results.
    Done(Box<ExecuteResponse>),
    /// The head returned an error or did not respond.
    Failed(Failure),
    /// The user cancelled the run.
    Cancelled,
}

/// Describes the required group and attributes of the workers of `request`. `None` if there is no
/// requirement.
pub(crate) fn workers_text(request: &ExecuteRequest) -> Option<String> {
    let selector = request.config.selector.as_deref().filter(|text| !text.is_empty());
    let parts: Vec<&str> = [request.group(), selector].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    /// Time at which the request was sent.
    pub(crate) sent_at: Timestamp,
    pub(crate) request: ExecuteRequest,
    /// Source of its standard input.
    pub(crate) input: Input,
    /// Head that received the request. Other heads do not know the run.
    pub(crate) head: RunHead,
    /// Request id that the head has assigned. `None` if unknown.
    pub(crate) request_id: Option<String>,
    /// Progress of each peer, according to the head's events.
    pub(crate) live: RunProgress,
    /// Failure of the last poll of the head. `None` if the poll succeeded.
    pub(crate) trouble: Option<Failure>,
    pub(crate) phase: Phase,
    /// Duration of the run. `None` while it is pending.
    pub(crate) took: Option<Duration>,
}

/// The head of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RunHead {
    pub(crate) id: HeadId,
    /// Address of the head. `None` if no head was known when the run started.
    pub(crate) address: Option<String>,
}

/// The runs of this session, latest first.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    list: VecDeque<Run>,
    pub(crate) n_started: u32,
    early: Early,
}

impl Run {
    /// Returns the response, or `None` if the run has no results.
    pub(crate) fn response(&self) -> Option<&ExecuteResponse> {
        match &self.phase {
            Phase::Done(response) => Some(response),
            _ => None,
        }
    }

    /// Returns the exit code of the largest group. Returns `None` if any group has exit code 0.
    pub(crate) fn bad_exit(&self) -> Option<i32> {
        let groups = &self.response()?.results;
        let is_bad = groups.iter().all(|group| group.result.exit_code != 0);
        groups.first().filter(|_| is_bad).map(|group| group.result.exit_code)
    }

    /// Returns the outcome of the run.
    pub(crate) fn verdict(&self) -> Verdict {
        match (&self.phase, self.bad_exit()) {
            (Phase::Waiting, _) => Verdict::Waiting,
            (Phase::Failed(_), _) => Verdict::Failed,
            (Phase::Cancelled, _) => Verdict::Cancelled,
            (Phase::Done(response), Some(code)) => Verdict::BadExit(response.results.len(), code),
            (Phase::Done(response), None) => match response.results.len() {
                0 => Verdict::NoResult,
                1 => Verdict::Agreed,
                n => Verdict::Split(n),
            },
        }
    }

    /// Returns a short description of the outcome, with the number of peers that failed or the reason of
    /// the failure.
    pub(crate) fn words(&self) -> String {
        if let Phase::Failed(failure) = &self.phase {
            return failure.why.clone();
        }
        let words = self.verdict().words();
        match self.live.n_failed() {
            0 => words,
            n => format!("{n} failed, {words}"),
        }
    }

    /// Returns the duration of the run. If the run is pending, the time since it started.
    pub(crate) fn elapsed(&self, now: Timestamp) -> Duration {
        self.took.unwrap_or_else(|| now.since(self.sent_at))
    }

    /// Returns true if the run is pending.
    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting)
    }
}

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Waiting,
    /// All results are equal, with exit code 0.
    Agreed,
    /// Number of different results. At least one has exit code 0.
    Split(usize),
    /// Number of different results, none with exit code 0, and exit code of the largest group.
    BadExit(usize, i32),
    /// The head returned a response without results.
    NoResult,
    Failed,
    Cancelled,
}

impl Verdict {
    /// Returns a short description of the outcome.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Waiting => "running".to_owned(),
            Self::Agreed => "all agree".to_owned(),
            Self::Split(n) => format!("{n} results"),
            Self::BadExit(1, code) => format!("all agree on exit {code}"),
            Self::BadExit(n, code) => format!("{n} results, exit {code}"),
            Self::NoResult => "no result".to_owned(),
            Self::Failed => "failed".to_owned(),
            Self::Cancelled => "cancelled".to_owned(),
        }
    }
}

impl Runs {
    /// Returns the runs, latest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Run> {
        self.list.iter()
    }

    /// Returns the number of pending runs.
    pub(crate) fn n_waiting(&self) -> usize {
        self.list.iter().filter(|run| run.is_waiting()).count()
    }

    /// Returns the run with the number `id`.
    pub(crate) fn get(&self, id: RunId) -> Option<&Run> {
        self.list.iter().find(|run| run.id == id)
    }

    /// Returns the latest run.
    pub(crate) fn newest(&self) -> Option<&Run> {
        self.list.front()
    }

    /// Returns the latest run that executed the same function as the run `id` before it and has
    /// results.
    pub(crate) fn previous_result(&self, id: RunId) -> Option<&Run> {
        let run = self.get(id)?;
        self.list.iter().find(|other| {
            other.id < id
                && other.request.function_id == run.request.function_id
                && other.response().is_some()
        })
    }

    /// Adds a run and returns its number.
    pub(crate) fn start(
        &mut self,
        request: ExecuteRequest,
        input: Input,
        head: RunHead,
        now: Timestamp,
    ) -> RunId {
        self.n_started += 1;
        let id = RunId(self.n_started);
        self.list.push_front(Run {
            id,
            sent_at: now,
            request,
            input,
            head,
            request_id: None,
            live: RunProgress::default(),
            trouble: None,
            phase: Phase::Waiting,
            took: None,
        });
        self.list.truncate(RUNS_MAX);
        id
    }

    /// Records that the head has accepted the run `id` and assigned `request_id` to it.
    pub(crate) fn set_request_id(&mut self, id: RunId, request_id: String) {
        let live = self.early.claim(&request_id);
        if let Some(run) = self.list.iter_mut().find(|run| run.id == id) {
            run.live = live;
            run.request_id = Some(request_id);
        }
    }

    /// Handles an event of a head's stream. It names an execution by the request id, which the
    /// screen learns from the response to its request.
    ///
    /// The response can arrive before the events, after some of them, or after all of them. Events of
    /// an unknown request id are stored by [`Early`] until [`Self::set_request_id`] claims them. The
    /// final report of [`Self::add_report`] names the run itself, so its order does not matter.
    pub(crate) fn happened(&mut self, event: &ClusterEvent, now: Timestamp) {
        let Some(request_id) = event.kind.request_id() else { return };
        let is_end =
            matches!(event.kind, ClusterEventKind::Done { .. } | ClusterEventKind::Canceled { .. });
        let is_ours = self.list.iter().any(|run| run.request_id.as_deref() == Some(request_id));
        // An execution can end before the screen has learned its request id, but its run is pending
        // until then. If no run is pending, the execution belongs to another client.
        if is_end && !is_ours && self.n_waiting() == 0 {
            return self.early.forget(request_id);
        }
        let sent_at = event.time.parse().unwrap_or(now);
        self.progress_of(request_id).take(&event.kind, sent_at, now);
    }

    /// Records the final report of a head on the run `id`.
    pub(crate) fn add_report(&mut self, id: RunId, body: &ExecutionBody) {
        if let Some(run) = self.list.iter_mut().find(|run| run.id == id) {
            run.live.settle(body);
        }
    }

    /// Records that the local worker `peer_id` fetches the function of the execution `request_id`.
    pub(crate) fn fetching(&mut self, request_id: &str, peer_id: &str, now: Timestamp) {
        self.progress_of(request_id).fetching(peer_id, now);
    }

    /// Records that the head of a run is unreachable for the reason `trouble`. `None` if the head
    /// is reachable again. Returns true if this is a change.
    pub(crate) fn set_unreachable(&mut self, id: RunId, trouble: Option<Failure>) -> bool {
        let run = self.list.iter_mut().find(|run| run.id == id && run.is_waiting());
        let Some(run) = run else { return false };
        let is_news = run.trouble.is_some() != trouble.is_some();
        run.trouble = trouble;
        is_news
    }

    /// Returns the progress of the execution `request_id`. If it belongs to no run yet, the
    /// progress is stored until a run claims it.
    fn progress_of(&mut self, request_id: &str) -> &mut RunProgress {
        let is_it = |run: &&mut Run| run.request_id.as_deref() == Some(request_id);
        match self.list.iter_mut().find(is_it) {
            Some(run) => &mut run.live,
            None => self.early.progress_of(request_id),
        }
    }

    /// Records the response of a run. Returns false if the run was not pending.
    pub(crate) fn finish(
        &mut self,
        id: RunId,
        result: Outcome<Box<ExecuteResponse>>,
        now: Timestamp,
    ) -> bool {
        let phase = match result {
            // The head's API reports success by the code `200`.
            Ok(response) if response.code == "200" || !response.results.is_empty() => {
                Phase::Done(response)
            }
            Ok(response) => Phase::Failed(refused(&response)),
            Err(why) => Phase::Failed(why),
        };
        self.end(id, phase, now)
    }

    /// Cancels a run. Returns false if the run was not pending.
    pub(crate) fn cancel(&mut self, id: RunId, now: Timestamp) -> bool {
        self.end(id, Phase::Cancelled, now)
    }

    /// Fails all pending runs, since the screen connects to other services. `next` is the advice
    /// for the user.
    pub(crate) fn disconnect(&mut self, now: Timestamp, next: &str) {
        let waiting = self.list.iter().filter(|run| run.is_waiting()).map(|run| run.id);
        for id in waiting.collect::<Vec<_>>() {
            let why = "the screen has reconnected in the meantime; the head may still run it";
            let failure = Failure::new(format!("wait for run {}", id.0), why, next);
            self.end(id, Phase::Failed(failure), now);
        }
    }

    fn end(&mut self, id: RunId, phase: Phase, now: Timestamp) -> bool {
        let run = self.list.iter_mut().find(|run| run.id == id && run.is_waiting());
        let Some(run) = run else { return false };
        run.took = Some(now.since(run.sent_at));
        run.trouble = None;
        match phase {
            Phase::Cancelled => run.live.cancel(),
            _ => run.live.lose(),
        }
        run.phase = phase;
        true
    }
}

/// Returns the failure for the error code in `response`.
fn refused(response: &ExecuteResponse) -> Failure {
    let code = response.code.as_str();
    let (why, next) = match code {
        "408" => ("not enough nodes responded in time", "request fewer nodes, or another group"),
        "404" => ("no node has the function", "check the function's id"),
        "429" => ("every node is busy", "try again shortly"),
        _ => ("the head gave no reason", "look at the head's log"),
    };
    let why = if response.message.is_empty() { why } else { &response.message };
    Failure { status: code.parse().ok(), ..Failure::new(format!("execute ({code})"), why, next) }
}

/// Maximum number of rows in standard input. A page of the dataset service has the same maximum.
const ROWS_MAX: u32 = 10_000;

/// Source of standard input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Input {
    /// The request already contains standard input.
    #[default]
    Typed,
    /// The content of a local file. The file is read when the run is sent.
    File(String),
    /// The latest rows of a dataset at the time the run is sent, each row as a line of JSON.
    Rows {
        /// Name of the dataset.
        dataset: String,
        window: Window,
    },
}

/// Amount of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// All rows of a period that ends at the latest row.
    Span(Duration),
    Count(u32),
}

/// Kind of standard input that the form describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub(crate) enum Source {
    /// The next field contains standard input.
    #[default]
    Typed,
    /// The next field contains the path of a file.
    File,
    /// The next field contains the name of a dataset and a number of rows or a period.
    Rows,
}

impl Input {
    /// Parses the description `text` of standard input of kind `source`.
    ///
    /// # Errors
    /// A message for the user if `text` is invalid.
    pub(crate) fn read(source: Source, text: &str) -> Result<Self, String> {
        let text = text.trim();
        match source {
            Source::Typed => Ok(Self::Typed),
            Source::File if text.is_empty() => Err("a file path is required".to_owned()),
            Source::File => Ok(Self::File(text.to_owned())),
            Source::Rows => {
                let (dataset, window) = text.rsplit_once(char::is_whitespace).unwrap_or((text, ""));
                if dataset.is_empty() || window.is_empty() {
                    return Err("a dataset and a window: NAME 24h, or NAME 120 for rows".to_owned());
                }
                let dataset = dataset.trim().to_owned();
                Ok(Self::Rows { dataset, window: Window::read(window)? })
            }
        }
    }

    /// Returns the kind of standard input and its description in the form. `None` for typed input,
    /// which is part of the request.
    pub(crate) fn text(&self) -> Option<(Source, String)> {
        match self {
            Self::Typed => None,
            Self::File(path) => Some((Source::File, path.clone())),
            Self::Rows { dataset, window } => {
                Some((Source::Rows, format!("{dataset} {}", window.text())))
            }
        }
    }
}

impl Window {
    fn read(text: &str) -> Result<Self, String> {
        match (text.parse::<u32>(), span(text)) {
            (Ok(n_rows @ 1..=ROWS_MAX), _) => Ok(Self::Count(n_rows)),
            (Ok(_), _) => Err(format!("1 to {ROWS_MAX} rows")),
            // The dataset service accepts queries for at most 24 hours of raw rows.
            (Err(_), Some(span)) if !span.is_zero() && span <= Duration::from_hours(24) => {
                Ok(Self::Span(span))
            }
            _ => Err(format!("`{text}` is not a window: a span up to 24h, or a number of rows")),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Count(n_rows) => n_rows.to_string(),
            Self::Span(span) if span.subsec_nanos() > 0 => format!("{span:?}"),
            Self::Span(span) => match span.as_secs() {
                seconds if seconds % 3_600 == 0 => format!("{}h", seconds / 3_600),
                seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
                seconds => format!("{seconds}s"),
            },
        }
    }
}

/// Parses a duration, such as `90m`, `24h` or `5 minutes`.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.parse().ok()?;
    span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

#[cfg(test)]
mod runs_tests {
    use super::*;

    #[test]
    fn response_to_a_canceled_run_is_ignored() {
        let at = Timestamp::from_seconds;
        let mut runs = Runs::default();
        let id = runs.start(ExecuteRequest::default(), Input::Typed, RunHead::default(), at(10));
        assert!(runs.cancel(id, at(12)));
        assert!(!runs.finish(id, Ok(Box::default()), at(13)));
        let run = runs.get(id).unwrap();
        assert_eq!((&run.phase, run.took), (&Phase::Cancelled, Some(Duration::from_secs(2))));
    }

    #[test]
    fn run_with_a_failure_code_in_the_body_is_a_failure() {
        let mut runs = Runs::default();
        let request = ExecuteRequest::default();
        let id = runs.start(request, Input::Typed, RunHead::default(), Timestamp::default());
        let response = ExecuteResponse { code: "408".to_owned(), ..ExecuteResponse::default() };
        runs.finish(id, Ok(Box::new(response)), Timestamp::default());
        let Phase::Failed(why) = &runs.get(id).unwrap().phase else { panic!("a failure") };
        assert_eq!(why.why, "not enough nodes responded in time");
    }
}

#[cfg(test)]
mod input_tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<(&str, Window)>) {
        let got = Input::read(Source::Rows, text);
        let Some((dataset, window)) = want else {
            return assert!(got.is_err(), "{got:?}");
        };
        let input = Input::Rows { dataset: dataset.to_owned(), window };
        assert_eq!(got.as_ref(), Ok(&input));
        let (source, text) = input.text().unwrap();
        assert_eq!(Input::read(source, &text), got, "its text parses as the same window");
    }

    #[test]
    fn rows_for_standard_input_are_specified_by_dataset_name_and_time_range_or_count() {
        let hours = |n| Window::Span(Duration::from_hours(n));
        check("btc 24h", Some(("btc", hours(24))));
        check(" my set  90m ", Some(("my set", Window::Span(Duration::from_mins(90)))));
        check("btc 1500ms", Some(("btc", Window::Span(Duration::from_millis(1_500)))));
        check("btc 120", Some(("btc", Window::Count(120))));
        check("btc 1d", Some(("btc", hours(24))));
        for text in ["", "btc", "btc 25h", "btc 0", "btc 0m", "btc 10001", "btc 3x", "btc 1é"] {
            check(text, None);
        }
    }

    #[test]
    fn input_file_without_a_name_is_rejected() {
        assert!(Input::read(Source::File, " ").is_err());
        assert_eq!(Input::read(Source::File, "a b.csv"), Ok(Input::File("a b.csv".to_owned())));
        assert_eq!(Input::read(Source::Typed, ""), Ok(Input::Typed));
    }
}
