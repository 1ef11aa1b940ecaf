//! Logs: one JSON object per line, `{"level",…fields…,"time","message"}`, as b7s nodes write them.
//!
//! Services write lines to their standard output or error. The screen draws on the terminal, so its log
//! lines go to a file instead, to a new file each day. A field with a name such as `x.json` holds JSON
//! and is written as the member `x`.
//!
//! A separate thread writes the lines, so that responses do not wait for their log lines. At exit, a slow
//! output gets some time to receive the rest.

mod traces;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fmt, fs, thread};

use anyhow::Context as _;
use model::count::counted;
use model::escape::escape_json;
use model::timestamp::Timestamp;
use opentelemetry_sdk::trace::SdkTracer;
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use serde_json::Value;
use task::causes::chain;
use task::clock::Clock;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, info};
use tracing_appender::rolling;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use self::traces::TracesGuard;
pub(crate) use self::traces::{Collector, ServiceName};
use super::output::tell;

/// Name of the field with the message of an event.
const MESSAGE: &str = "message";

/// Maximum number of lines that wait for the output. Further lines are dropped and counted. It is reached
/// only if the output is blocked.
const LINES_MAX: usize = 4096;

/// Maximum number of lines that are taken from the queue together. Of a write that blocks until the exit,
/// all count as dropped.
const BATCH_LINES: usize = 32;

/// Maximum time for which an exit waits until a slow output has received all lines. It is shorter than
/// the time after which systemd and Kubernetes kill a process.
const EXIT_WAIT: Duration = Duration::from_secs(5);

/// Maximum time to report dropped lines at exit, since standard error can be blocked too.
const REPORT_WAIT: Duration = Duration::from_millis(100);

/// Maximum number of daily files of the screen's log. Older files are deleted.
const FILES_KEPT: usize = 7;

/// Crates of this program. The chosen level applies to their log lines. For libraries, only warnings
/// and errors are written.
const CRATES: [&str; 18] = [
    "accounts",
    "client",
    "cluster",
    "content",
    "datasets",
    "db",
    "formats",
    "inference",
    "model",
    "runtime",
    "stack",
    "task",
    "transfer",
    "triptych",
    "tsdb",
    "tui",
    "web",
    "wire",
];

/// Guards of a service's log and traces. Dropping them flushes both.
pub(crate) struct ServiceLog {
    _traces: Option<TracesGuard>,
    _lines: LinesGuard,
}

/// Starts the log of `service`: lines of `level` and of more severe levels are written to standard
/// output. Sends spans to `collector` if one is given.
///
/// # Errors
/// If logging is already set up, or spans cannot be sent.
pub(crate) fn of_service(
    level: Level,
    collector: Option<&Collector>,
    service: ServiceName,
) -> anyhow::Result<ServiceLog> {
    let started = collector.map(|collector| traces::start(collector, service)).transpose()?;
    let (tracer, traces) = started.unzip();
    let lines = init(Box::new(io::stdout()), level, tracer)?;
    if let Some(collector) = collector {
        info!(collector = &*collector.redacted(), "sending spans");
    }
    Ok(ServiceLog { _traces: traces, _lines: lines })
}

/// Starts a log on standard error with lines of `level` and of more severe levels. Dropping the guard
/// flushes the lines.
///
/// # Errors
/// If logging is already set up.
pub(crate) fn to_stderr(level: Level) -> anyhow::Result<LinesGuard> {
    init(Box::new(io::stderr()), level, None)
}

/// Starts a log in daily files in `folder`. Dropping the guard flushes the lines.
///
/// # Errors
/// If a file cannot be created in the directory, or logging is already set up.
pub(crate) fn to_folder(folder: &Path, level: Level) -> anyhow::Result<LinesGuard> {
    // The directory is created first, since the appender lists old files before it creates the
    // directory, and would print an error on the screen if the directory is missing.
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = rolling::Builder::new()
        .rotation(rolling::Rotation::DAILY)
        .filename_prefix("triptych")
        .filename_suffix("log")
        .max_log_files(FILES_KEPT)
        .build(folder)
        .with_context(|| format!("cannot open a log file in {}", folder.display()))?;
    init(Box::new(file), level, None)
}

fn init(
    writer: Box<dyn Write + Send>,
    level: Level,
    tracer: Option<SdkTracer>,
) -> anyhow::Result<LinesGuard> {
    let targets = Targets::new()
        .with_default(Level::WARN)
        // The library of Kademlia warns whenever a node knows no peer, but this is normal for the first
        // node of a cluster.
        .with_target("libp2p_kad", Level::ERROR)
        .with_targets(CRATES.map(|name| (name, level)));
    let (lines, guard) =
        JsonLines::start(writer, Clock::system()).context("cannot start the thread of the log")?;
    let spans = tracer.map(|tracer| {
        let of_traces = Targets::new().with_target(task::traces::TARGET, Level::INFO);
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        layer.with_location(false).with_threads(false).with_filter(of_traces)
    });
    tracing_subscriber::registry()
        .with(lines.with_filter(targets))
        .with(spans)
        .try_init()
        .context("cannot set up logging")?;
    Ok(guard)
}

/// Layer of `tracing` that formats each event as a line of JSON.
struct JsonLines {
    queue: Arc<Queue>,
    clock: Clock,
}

impl JsonLines {
    /// Starts a thread that writes the lines to `writer`. Dropping the guard flushes them.
    fn start(writer: Box<dyn Write + Send>, clock: Clock) -> io::Result<(Self, LinesGuard)> {
        let queue = Arc::<Queue>::default();
        let (lines, guard) = (Arc::clone(&queue), LinesGuard(Arc::clone(&queue)));
        let of_writer = clock.clone();
        let write = move || lines.write_to(writer, &of_writer);
        thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok((Self { queue, clock }, guard))
    }

    /// Adds the line of an event, unless too many lines wait.
    fn write(&self, level: Level, fields: &Fields) {
        let line = line(level, fields, self.clock.now());
        let mut state = self.queue.state.lock();
        if state.waiting.len() < LINES_MAX {
            state.waiting.push_back(line);
            self.queue.changed.notify_all();
        } else {
            state.n_dropped += 1;
        }
    }
}

/// Lines on their way to the output.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<String>,
    /// Number of lines in the current write.
    n_writing: usize,
    /// Number of dropped lines that the output does not report.
    n_dropped: usize,
}

impl QueueState {
    fn n_unwritten(&self) -> usize {
        self.n_writing + self.waiting.len()
    }
}

impl Queue {
    /// Writes the lines to `writer`, each time followed by the number of dropped lines, if any. Never
    /// returns.
    fn write_to(&self, mut writer: Box<dyn Write + Send>, clock: &Clock) {
        let mut state = self.state.lock();
        loop {
            self.changed.wait_while(&mut state, |state| state.waiting.is_empty());
            let n_taken = state.waiting.len().min(BATCH_LINES);
            let mut text: String = state.waiting.drain(..n_taken).collect();
            let n_dropped = state.n_dropped;
            state.n_writing = n_taken;
            drop(state);
            if n_dropped > 0 {
                let mut fields = Fields::default();
                fields.put("lines", n_dropped);
                fields.message.push_str("log lines were dropped since the output was blocked");
                text += &line(Level::WARN, &fields, clock.now());
            }
            let written = writer.write_all(text.as_bytes()).and_then(|()| writer.flush());
            state = self.state.lock();
            state.n_writing = 0;
            match written {
                Ok(()) => state.n_dropped -= n_dropped,
                Err(_) => state.n_dropped += n_taken,
            }
            self.changed.notify_all();
        }
    }
}

/// Guard of the log. Dropping it waits for [`EXIT_WAIT`] at most until the output has received all
/// lines, and otherwise reports the number of dropped lines on standard error. A closed output is not
/// waited for.
pub(crate) struct LinesGuard(Arc<Queue>);

impl Drop for LinesGuard {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        self.0.changed.wait_while_for(&mut state, |state| state.n_unwritten() > 0, EXIT_WAIT);
        let n_lost = state.n_unwritten() + state.n_dropped;
        drop(state);
        if n_lost > 0 {
            let (reported, is_reported) = mpsc::channel::<()>();
            thread::spawn(move || {
                tell(&format!("{} could not be written", counted(n_lost, "log line")));
                drop(reported);
            });
            is_reported.recv_timeout(REPORT_WAIT).unwrap_or_default();
        }
    }
}

impl<S: Subscriber> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.write(*event.metadata().level(), &fields);
    }
}

/// Formats an event as a line of JSON with a line feed.
fn line(level: Level, fields: &Fields, now: Timestamp) -> String {
    let level = level.as_str().to_ascii_lowercase();
    // The time is formatted here, since it must always have three digits of milliseconds, even if they
    // are zeros.
    let second = Timestamp::from_seconds(now.seconds()).to_string();
    let (second, millis) =
        (second.trim_end_matches('Z'), now.micros().rem_euclid(1_000_000) / 1000);
    let (members, message) = (&fields.members, to_json(&fields.message));
    let line = format!(
        "{{\"level\":\"{level}\"{members},\"time\":\"{second}.{millis:03}Z\",\"message\":{message}}}\n"
    );
    // The serializer does not escape DEL, C1 and bidirectional control characters, which could affect a
    // terminal.
    escape_json(&line).into_owned()
}

fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    // The serialization of text and numbers cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

/// Content of an event: its message, and its other fields as serialized members of a JSON object, in
/// their order.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    members: String,
}

impl Fields {
    fn put(&mut self, name: &str, value: impl Serialize) {
        self.members.extend([",", &to_json(name), ":", &to_json(&value)]);
    }

    fn put_text(&mut self, name: &str, text: &str) {
        if name == MESSAGE {
            return self.message.push_str(text);
        }
        let json = name
            .strip_suffix(".json")
            .and_then(|name| Some((name, serde_json::from_str::<Value>(text).ok()?)));
        match json {
            Some((name, value)) => self.put(name, value),
            None => self.put(name, text),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_text(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put_text(field.name(), &chain(value));
    }
}

#[cfg(test)]
mod tests;
