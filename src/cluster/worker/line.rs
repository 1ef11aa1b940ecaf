//! A head's line: its orders, each run in a task, and its wish to cancel them.
//!
//! When a line ends, so do the runs that were ordered on it: nobody would hear of them.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use model::node::PeerId;
use parking_lot::Mutex;
use tokio::{select, sync::oneshot, time::timeout};
use tracing::{debug, info};

use super::{Refusal, Worker};
use crate::{
    message::{LINE_PROTOCOL, OrderState, WorkOrder, frame, json},
    metrics,
    network::line::{Frame, Frames, Incoming, Line},
};

/// Lines at once: far more heads than a worker has, and as many frames of 4 MiB at most that are being
/// read. More are ended at once.
pub(super) const LINES_MAX: u32 = 256;

/// How long a head has to end a line whose worker is stopping: time for the last answers to arrive.
const END_WITHIN: Duration = Duration::from_secs(1);

/// A line that stands.
#[derive(Debug)]
pub(super) struct OpenLine {
    number: u64,
    /// Dropped, it ends the line.
    _end: oneshot::Sender<()>,
}

/// The runs of one line, by request, each with what cancels it. No more than orders admitted.
type Runs = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

impl Worker {
    /// Serves the line of `head` until it ends. Of two lines of one head, the newer is served.
    /// Dropping it ends what it runs.
    pub async fn serve_line(&self, head: PeerId, line: Line, mut frames: Frames) {
        let permit = Arc::clone(&self.0.open_lines).try_acquire_owned();
        let Ok(_permit) = permit else {
            return debug!(peer = %head, "ended a line: there are too many");
        };
        let (end, mut ended) = oneshot::channel();
        let number = self.0.n_lines.fetch_add(1, Ordering::Relaxed);
        let open = OpenLine { number, _end: end };
        self.0.lines.lock().insert(head.clone(), open);
        let runs = Runs::default();
        loop {
            let frame = select! {
                frame = frames.next() => frame,
                _ = &mut ended => None,
            };
            match frame {
                Some(Incoming::Whole(Frame { kind: frame::ORDER, content })) => {
                    self.ordered(&head, &content, &line, &runs).await;
                }
                Some(Incoming::Whole(Frame { kind: frame::CANCEL, content })) => {
                    let canceled = String::from_utf8_lossy(&content);
                    drop(runs.lock().remove(canceled.as_ref()));
                }
                Some(Incoming::Whole(Frame { kind: frame::PING, .. })) => {
                    let pong = Frame { kind: frame::PONG, content: Bytes::new() };
                    if line.send(pong).await.is_err() {
                        break;
                    }
                }
                Some(Incoming::Whole(_)) => {}
                Some(Incoming::Cut(_)) => {
                    self.0.context.network.blame_too_long(&head);
                    break;
                }
                None => break,
            }
        }
        runs.lock().clear();
        self.0.lines.lock().retain(|_, other| other.number != number);
        // What was answered is written before the line ends; then the head ends its side.
        drop(line);
        let ending = async { while frames.next().await.is_some() {} };
        drop(timeout(END_WITHIN, ending).await);
    }

    /// Ends all lines, and waits for it, at most as long as heads have for that.
    pub(super) async fn end_lines(&self) {
        self.0.lines.lock().clear();
        drop(timeout(END_WITHIN, self.0.open_lines.acquire_many(LINES_MAX)).await);
    }

    async fn ordered(&self, head: &PeerId, content: &[u8], line: &Line, runs: &Runs) {
        self.0.context.metrics.add(metrics::DIRECT_MESSAGES, &[]);
        let order = match WorkOrder::read(content) {
            Ok(order) => order,
            Err(error) => {
                self.0.context.network.blame(head);
                return debug!(peer = %head, %error, "dropped a work order");
            }
        };
        let Some(permit) = self.0.orders.try_take(head, self.standing(head)) else {
            let refusal = Refusal::Full { n_slots: self.0.n_slots };
            return self.send(line, json(&refusal.answer(head, &order))).await;
        };
        let (cancel, canceled) = oneshot::channel();
        runs.lock().insert(order.request_id.clone(), cancel);
        let (worker, head, line) = (self.clone(), head.clone(), line.clone());
        let runs = Arc::clone(runs);
        self.0.context.group.spawn("work order", async move {
            select! {
                response = worker.answer(&head, &order, Some(&line)) => {
                    runs.lock().remove(&order.request_id);
                    worker.send(&line, json(&response)).await;
                }
                _ = canceled => {
                    info!(request = order.request_id, peer = %head, "canceled an execution");
                }
            }
            // The line goes first: who waits for the permits then ends it with all answers written.
            drop((line, permit));
        });
    }

    /// Tells a head on its line, if it has one, at which step the run of `order` is.
    pub(super) async fn tell_state(&self, line: Option<&Line>, order: &WorkOrder, state: &str) {
        let Some(line) = line else { return };
        let state = OrderState { request_id: order.request_id.clone(), state: state.to_owned() };
        let frame = Frame { kind: frame::STATE, content: json(&state).into() };
        if line.send(frame).await.is_err() {
            debug!("the state of an order did not reach its head: the line has ended");
        }
    }

    async fn send(&self, line: &Line, response: Vec<u8>) {
        let (kind, n_bytes) = ("MsgWorkOrderResponse", response.len());
        metrics::count_sent(&self.0.context.metrics, LINE_PROTOCOL, kind, n_bytes);
        let frame = Frame { kind: frame::ANSWER, content: response.into() };
        if line.send(frame).await.is_err() {
            debug!("an answer did not reach its head: the line has ended");
        }
    }
}
