//! The local stack as the screen sees it: starts it, tells what happens to it, stops it.

use std::{path::PathBuf, sync::Arc};

use ::tui::local::{
    Addresses, Level, LocalError, LocalEvent, LocalFunction, LocalLog, LocalNode, LocalReady,
    LocalStack,
};
use async_trait::async_trait;
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use task::{clock::Clock, group::Group};
use tokio::sync::mpsc;

use crate::cli::{
    place::Claim,
    stack::{
        self, Ports, Ready, StackOptions,
        child::{Line, Running},
    },
};

/// Log lines that may wait for the screen; further ones are dropped.
const LINES_CAPACITY: usize = 1024;

/// A local stack that the screen starts and stops.
#[derive(Debug)]
pub(crate) struct Local {
    data_dir: Option<PathBuf>,
    group: Group,
    /// Held while the stack runs.
    claimed: Arc<Mutex<Option<Claim>>>,
}

impl Local {
    /// A stack with its state in `data_dir`, else in a folder of the user's that is free.
    pub(crate) fn new(data_dir: Option<PathBuf>) -> Self {
        Self { data_dir, group: Group::default(), claimed: Arc::default() }
    }

    async fn try_start(&self, events: &mpsc::Sender<LocalEvent>) -> anyhow::Result<()> {
        let options = StackOptions {
            claim: Claim::stack(self.data_dir.clone())?,
            ports: Ports::default(),
            log_level: tracing::Level::INFO,
        };
        let (lines, heard) = mpsc::channel(LINES_CAPACITY);
        self.group.spawn_to_end("local log lines", pass_on(heard, events.clone()));
        let progress = |what: &str| {
            // A full queue holds newer news than this.
            drop(events.try_send(LocalEvent::Starting { what: what.to_owned() }));
        };
        let started = stack::start(&options, &self.group, lines, progress).await;
        *self.claimed.lock() = Some(options.claim);
        let ready = started?;
        for process in &ready.processes {
            self.group.spawn("watch a process", tell_end(process.clone(), events.clone()));
        }
        // Where the screen is gone nobody waits for this.
        drop(events.send(LocalEvent::Ready(describe(ready))).await);
        Ok(())
    }
}

#[async_trait]
impl LocalStack for Local {
    async fn start(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        self.try_start(&events).await.map_err(|error| LocalError {
            what: "the local stack".to_owned(),
            source: error.into_boxed_dyn_error(),
        })
    }

    async fn stop(&self) {
        self.group.shutdown().await;
        self.claimed.lock().take();
    }
}

/// Says that a process ended by itself. Stopped with the group, it says nothing.
async fn tell_end(process: Running, events: mpsc::Sender<LocalEvent>) {
    let ended = process.ended().await;
    let exited = LocalEvent::Exited { process: process.process.to_owned(), code: ended.code };
    // Where the screen is gone nobody wants to know.
    drop(events.send(exited).await);
}

async fn pass_on(mut lines: mpsc::Receiver<Line>, events: mpsc::Sender<LocalEvent>) {
    let clock = Clock::system();
    while let Some(line) = lines.recv().await {
        // Full: dropped, as the screen expects of log lines.
        drop(events.try_send(LocalEvent::Log(read(&line, clock.now()))));
    }
}

/// Reads a log line. One that is no JSON object is a warning: services write nothing else.
fn read(line: &Line, now: Timestamp) -> LocalLog {
    let process = line.process.to_owned();
    let Ok(Value::Object(mut members)) = serde_json::from_str(&line.text) else {
        let message = line.text.clone();
        return LocalLog { process, level: Level::Warn, time: now, message, fields: Vec::new() };
    };
    let mut take = |name: &str| match members.remove(name) {
        Some(Value::String(text)) => Some(text),
        Some(other) => Some(other.to_string()),
        None => None,
    };
    let level = Level::named(&take("level").unwrap_or_default());
    let time = take("time").and_then(|time| time.parse().ok()).unwrap_or(now);
    let message = take("message").unwrap_or_default();
    let fields = members
        .into_iter()
        .map(|(name, value)| match value {
            Value::String(text) => (name, text),
            other => (name, other.to_string()),
        })
        .collect();
    LocalLog { process, level, time, message, fields }
}

fn describe(ready: Ready) -> LocalReady {
    LocalReady {
        addresses: Addresses {
            head: Some(ready.head),
            datasets: Some(ready.datasets),
            inference: Some(ready.inference),
            api_key: Some(ready.api_key),
            head_token: None,
        },
        nodes: ready
            .nodes
            .into_iter()
            .map(|node| LocalNode {
                name: node.name.to_owned(),
                peer_id: node.peer_id,
                role: node.role,
                subgroup: node.subgroup,
                pid: node.pid,
            })
            .collect(),
        functions: ready
            .functions
            .into_iter()
            .map(|function| LocalFunction {
                name: function.name,
                function_id: function.function_id,
                method: function.method,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, level: Level, message: &str, fields: &[(&str, &str)]) {
        let log = read(&Line { process: "head", text: text.into() }, Timestamp::default());
        let got: Vec<_> =
            log.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!((log.level, log.message.as_str(), got.as_slice()), (level, message, fields));
    }

    #[test]
    fn a_line_is_taken_apart() {
        check(
            r#"{"level":"warn","port":":80","n":3,"time":"2026-07-30T21:57:00Z","message":"x"}"#,
            Level::Warn,
            "x",
            &[("n", "3"), ("port", ":80")],
        );
    }

    #[test]
    fn a_line_that_is_no_json_is_a_warning() {
        check("thread panicked", Level::Warn, "thread panicked", &[]);
    }
}
