//! Progress of each peer in a run, according to the events of the head.

use std::collections::VecDeque;
use std::time::Duration;

use model::timestamp::Timestamp;
use wire::executions::{ClusterEventKind, ExecutionBody, Usage};

/// Maximum number of executions that belong to no run. Most are executions of other clients. The oldest
/// execution is evicted.
const EARLY_MAX: usize = 64;

/// Stages between dispatch and result of a work order.
const WORKING: [Stage; 2] = [Stage::Compiling, Stage::Running];

/// Stage of a peer in an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The peer reported to the roll call and waits for a work order.
    Ready,
    /// The peer is fetching the function.
    Fetching,
    /// The peer is compiling the function.
    Compiling,
    /// The peer is executing its work order.
    Running,
    Answered {
        /// Exit code of the function on the peer.
        exit_code: i32,
    },
    /// The peer failed to return a result.
    Failed {
        reason: String,
        /// True if another peer has replaced this peer.
        is_replaced: bool,
    },
    /// The work order was cancelled, because enough results had arrived.
    Cancelled,
    /// The peer reported to the roll call but was not needed.
    Spare,
    /// The outcome is unknown, since the head did not report it.
    Unknown,
}

/// Progress of a peer in a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub(crate) peer_id: String,
    pub(crate) stage: Stage,
    /// Time at which the screen learned of the stage.
    pub(crate) since: Timestamp,
    /// Time from the dispatch of the work order to the result.
    pub(crate) took: Option<Duration>,
    /// Resource usage of the execution. `None` if the head did not report it.
    pub(crate) usage: Option<Usage>,
    /// Time at which the work order was dispatched, by the head's clock. `None` if the peer got none.
    sent_at: Option<Timestamp>,
}

/// Progress of a run, according to the events of the head.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RunProgress {
    /// Progress of each peer, in the order of their first events.
    pub(crate) parts: Vec<Part>,
    /// True during the roll call.
    pub(crate) is_calling: bool,
    /// True if the run has ended. Peers that report later were not needed.
    is_over: bool,
}

/// Progress of executions that belong to no run yet, by request id.
#[derive(Debug, Default)]
pub(crate) struct Early(VecDeque<(String, RunProgress)>);

impl Stage {
    /// Returns true if the peer has no more work to do.
    pub(crate) const fn is_over(&self) -> bool {
        !matches!(self, Self::Ready | Self::Fetching | Self::Compiling | Self::Running)
    }
}

impl RunProgress {
    /// Returns the number of peers that got a work order and were not replaced, and the number of
    /// those that have finished.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let has_work = |part: &&Part| {
            !matches!(part.stage, Stage::Ready | Stage::Failed { is_replaced: true, .. })
                && part.sent_at.is_some()
        };
        let given = self.parts.iter().filter(has_work);
        let n_answered = given.clone().filter(|part| part.stage.is_over()).count();
        (given.count(), n_answered)
    }

    /// Returns the number of peers that failed and were not replaced.
    pub(crate) fn n_failed(&self) -> usize {
        let is_failed = |part: &&Part| {
            matches!(part.stage, Stage::Failed { is_replaced: false, .. }) && part.sent_at.is_some()
        };
        self.parts.iter().filter(is_failed).count()
    }

    /// Describes the work orders, such as `2 of 3 done, 1 failed`. `None` if no peer got one.
    pub(crate) fn tally(&self) -> Option<String> {
        let ((n_given, n_over), n_failed) = (self.counts(), self.n_failed());
        let done = format!("{} of {n_given} done", n_over.saturating_sub(n_failed));
        match (n_given, n_failed) {
            (0, _) => None,
            (_, 0) => Some(done),
            _ => Some(format!("{done}, {n_failed} failed")),
        }
    }

    /// Handles an event that the head sent at `sent_at`, by its clock. Several events can arrive
    /// together, so durations are differences of these times.
    pub(crate) fn take(&mut self, kind: &ClusterEventKind, sent_at: Timestamp, now: Timestamp) {
        match kind {
            ClusterEventKind::RollCall { .. } => self.is_calling = true,
            ClusterEventKind::Reported { peer_id, .. } => {
                self.advance(peer_id, &[Stage::Fetching], Stage::Ready, now);
            }
            ClusterEventKind::Dispatched { peer_id, .. } => {
                self.is_calling = false;
                let part = self.part(peer_id, now);
                part.sent_at = Some(sent_at);
                (part.stage, part.since) = (Stage::Running, now);
            }
            ClusterEventKind::Compiling { peer_id, .. } => {
                self.advance(peer_id, &WORKING, Stage::Compiling, now);
            }
            ClusterEventKind::Compiled { peer_id, .. } => {
                self.advance(peer_id, &WORKING, Stage::Running, now);
            }
            ClusterEventKind::Result { peer_id, exit_code, .. } => {
                self.end(peer_id, Stage::Answered { exit_code: *exit_code }, sent_at, now);
            }
            ClusterEventKind::Failed { peer_id, reason, replaced, .. } => {
                let stage = Stage::Failed { reason: reason.clone(), is_replaced: *replaced };
                self.end(peer_id, stage, sent_at, now);
            }
            ClusterEventKind::Done { .. } => {
                self.is_calling = false;
                self.spare_unsent();
            }
            ClusterEventKind::Canceled { .. } => {
                self.cancel();
                for part in self.parts.iter_mut().filter(|part| part.stage == Stage::Cancelled) {
                    part.took = part.sent_at.map(|dispatched_at| sent_at.since(dispatched_at));
                }
            }
            _ => {}
        }
    }

    /// Changes the stage of a peer to `stage`, if its current stage is one of `from`.
    fn advance(&mut self, peer_id: &str, from: &[Stage], stage: Stage, now: Timestamp) {
        let part = self.part(peer_id, now);
        if from.contains(&part.stage) {
            (part.stage, part.since) = (stage, now);
        }
    }

    /// Records that a local worker fetches the function, which its log has reported.
    pub(crate) fn fetching(&mut self, peer_id: &str, now: Timestamp) {
        self.advance(peer_id, &[Stage::Ready], Stage::Fetching, now);
    }

    /// Applies the head's report on the execution, which is more accurate than its events.
    pub(crate) fn settle(&mut self, body: &ExecutionBody) {
        let Ok(started_at) = body.started_at.parse::<Timestamp>() else { return };
        let millis = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default();
        for told in &body.peers {
            let stage = match told.state.as_str() {
                "answered" => Stage::Answered { exit_code: told.exit_code.unwrap_or_default() },
                "failed" | "replaced" => Stage::Failed {
                    reason: told.reason.clone(),
                    is_replaced: told.state == "replaced",
                },
                "canceled" => Stage::Cancelled,
                "compiling" => Stage::Compiling,
                _ => Stage::Running,
            };
            let sent_at = started_at + millis(told.dispatched_ms);
            let took = told.answered_ms.map(|ms| millis(ms - told.dispatched_ms));
            let part = self.part(&told.peer_id, sent_at);
            part.sent_at = Some(sent_at);
            if took.is_some() || !part.stage.is_over() {
                part.stage = stage;
            }
            part.took = took.or(part.took);
            part.usage = told.usage;
        }
        self.is_calling = false;
        if matches!(body.state.as_str(), "done" | "canceled") {
            self.spare_unsent();
        }
    }

    /// Records that the run has ended. Peers that were not sent a work order were not needed.
    fn spare_unsent(&mut self) {
        self.is_over = true;
        let is_open = |part: &&mut Part| !part.stage.is_over() && part.sent_at.is_none();
        for part in self.parts.iter_mut().filter(is_open) {
            part.stage = Stage::Spare;
        }
    }

    /// Records that the run was cancelled, including the work orders in progress.
    pub(crate) fn cancel(&mut self) {
        self.is_calling = false;
        self.is_over = true;
        for part in self.parts.iter_mut().filter(|part| !part.stage.is_over()) {
            part.stage = Stage::Cancelled;
        }
    }

    /// Records that the run has ended without a report on the work orders in progress.
    pub(crate) fn lose(&mut self) {
        self.spare_unsent();
        self.is_calling = false;
        for part in self.parts.iter_mut().filter(|part| !part.stage.is_over()) {
            part.stage = Stage::Unknown;
        }
    }

    fn end(&mut self, peer_id: &str, stage: Stage, ended_at: Timestamp, now: Timestamp) {
        let part = self.part(peer_id, now);
        part.took = part.sent_at.map(|sent_at| ended_at.since(sent_at));
        part.stage = stage;
        part.since = now;
    }

    fn part(&mut self, peer_id: &str, now: Timestamp) -> &mut Part {
        let idx = self.parts.iter().position(|part| part.peer_id == peer_id);
        let idx = idx.unwrap_or_else(|| {
            // Limits the number of listed peers.
            self.parts.truncate(10_000);
            self.parts.push(Part {
                peer_id: peer_id.to_owned(),
                stage: if self.is_over { Stage::Spare } else { Stage::Ready },
                since: now,
                took: None,
                usage: None,
                sent_at: None,
            });
            self.parts.len() - 1
        });
        &mut self.parts[idx]
    }
}

impl Early {
    /// Returns the progress of the execution `request_id`. Adds it if it is new.
    pub(crate) fn progress_of(&mut self, request_id: &str) -> &mut RunProgress {
        let idx = self.0.iter().position(|(id, _)| id == request_id);
        let idx = idx.unwrap_or_else(|| {
            if self.0.len() >= EARLY_MAX {
                self.0.pop_front();
            }
            self.0.push_back((request_id.to_owned(), RunProgress::default()));
            self.0.len() - 1
        });
        &mut self.0[idx].1
    }

    /// Removes the execution `request_id` and returns its progress.
    pub(crate) fn claim(&mut self, request_id: &str) -> RunProgress {
        let idx = self.0.iter().position(|(id, _)| id == request_id);
        idx.and_then(|idx| self.0.remove(idx)).map(|(_, live)| live).unwrap_or_default()
    }

    /// Drops execution `request_id`.
    pub(crate) fn forget(&mut self, request_id: &str) {
        self.0.retain(|(id, _)| id != request_id);
    }
}

#[cfg(test)]
mod tests;
