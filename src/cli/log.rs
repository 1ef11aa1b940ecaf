//! Logs: one JSON object a line, `{"level",…fields…,"time","message"}`, as b7s nodes write them.
//!
//! Services write to their standard output or error; the screen, which owns both, to a file that
//! rolls each day. A field named `x.json` holds JSON, and is written as the member `x`.

use std::{
    fmt, fs,
    io::{self, Write},
    path::Path,
};

use anyhow::Context as _;
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use task::{causes::chain, clock::Clock};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_appender::{
    non_blocking::{NonBlockingBuilder, WorkerGuard},
    rolling,
};
use tracing_subscriber::{
    Layer, filter::Targets, layer::Context, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// Days of the screen's own log that are kept.
const FILES_KEPT: usize = 7;

/// Lines of the screen's own log that may wait for its file; further ones are dropped. Room for all
/// of them is made at once: for the 128 000 of the default it takes 4 MB, and 2 ms of each start.
const LINES_WAITING_MAX: usize = 1_024;

/// The rooms of this program: their lines are written from the level asked for, those of libraries
/// from `warn` on.
const ROOMS: [&str; 12] = [
    "accounts",
    "client",
    "cluster",
    "datasets",
    "inference",
    "model",
    "runtime",
    "task",
    "triptych",
    "tui",
    "web",
    "wire",
];

/// Where log lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Standard output, as existing nodes do.
    Stdout,
    /// Standard error, where standard output carries something else.
    Stderr,
}

/// Writes log lines to `output` from `level` on, for the rest of the process.
///
/// # Errors
/// If logging was set up before.
pub(crate) fn to_stream(output: Output, level: Level) -> anyhow::Result<()> {
    let writer: Box<dyn Write + Send> = match output {
        Output::Stdout => Box::new(io::stdout()),
        Output::Stderr => Box::new(io::stderr()),
    };
    init(writer, level)
}

/// Writes log lines to a file in `folder` that rolls each day, until the guard is dropped.
///
/// # Errors
/// If the folder cannot be written, or logging was set up before.
pub(crate) fn to_folder(folder: &Path, level: Level) -> anyhow::Result<WorkerGuard> {
    // Older files are looked for first, and a folder that is not there is complained about aloud.
    fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))?;
    let file = rolling::Builder::new()
        .rotation(rolling::Rotation::DAILY)
        .filename_prefix("triptych")
        .filename_suffix("log")
        .max_log_files(FILES_KEPT)
        .build(folder)
        .with_context(|| format!("open a log file in {}", folder.display()))?;
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(LINES_WAITING_MAX).finish(file);
    init(Box::new(writer), level)?;
    Ok(guard)
}

fn init(writer: Box<dyn Write + Send>, level: Level) -> anyhow::Result<()> {
    let targets = Targets::new()
        .with_default(Level::WARN)
        // It warns of each moment in which a node knows nobody, as every first node does.
        .with_target("libp2p_kad", Level::ERROR)
        .with_targets(ROOMS.map(|room| (room, level)));
    let lines = JsonLines { writer: Mutex::new(writer), clock: Clock::system() };
    tracing_subscriber::registry()
        .with(lines.with_filter(targets))
        .try_init()
        .context("set up logging")
}

/// The layer that turns events into lines.
struct JsonLines {
    writer: Mutex<Box<dyn Write + Send>>,
    clock: Clock,
}

impl<S: Subscriber> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = line(event.metadata(), fields, self.clock.now());
        let mut writer = self.writer.lock();
        // Where the log cannot be written there is nowhere left to say so.
        drop(writer.write_all(line.as_bytes()).and_then(|()| writer.flush()));
    }
}

/// Renders one line, with its line feed.
fn line(metadata: &Metadata<'_>, fields: Fields, now: Timestamp) -> String {
    let level = Value::from(metadata.level().as_str().to_ascii_lowercase());
    let members: Vec<String> = fields
        .members
        .into_iter()
        .map(|(name, value)| format!(",{}:{value}", Value::from(name)))
        .collect();
    let members = members.concat();
    let millis = now.micros().div_euclid(1000).saturating_mul(1000);
    let time = Value::from(Timestamp::from_micros(millis).to_string());
    let message = Value::from(fields.message);
    format!("{{\"level\":{level}{members},\"time\":{time},\"message\":{message}}}\n")
}

/// What an event carries: its message, and its fields in their order.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    members: Vec<(String, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("message", other) => self.message = other.to_string(),
            (name, Value::String(text)) => {
                let parsed = name
                    .strip_suffix(".json")
                    .and_then(|name| Some((name.to_owned(), serde_json::from_str(&text).ok()?)));
                self.members.push(parsed.unwrap_or_else(|| (name.to_owned(), text.into())));
            }
            (name, value) => self.members.push((name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, chain(value).into());
    }
}

#[cfg(test)]
mod tests;
