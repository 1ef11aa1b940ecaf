//! Line of a head. Runs its orders in a task each and cancels them on request.
//!
//! When a line is closed, the runs of its orders are canceled, since no one would receive the results.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::node::PeerId;
use parking_lot::Mutex;
use tokio::select;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{debug, info};

use super::{Phase, WorkRefusal, Worker};
use crate::message::{LINE_PROTOCOL, OrderState, WorkOrder, frame, json};
use crate::metrics;
use crate::network::line::{Frame, Frames, Incoming, Line};

/// Maximum number of open lines: many more than a worker has heads. Each can hold a frame of up to
/// 4 MiB that is being read. Further lines are closed immediately.
pub(super) const LINES_MAX: u32 = 256;

/// Time for a head to close a line when its worker is stopping, so that the last responses arrive.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Runs of a line by request, each with its cancellation. Limited by the admitted orders.
type Runs = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

impl Worker {
    /// Serves the line of `head` until it is closed. Dropping the future cancels its runs.
    pub async fn serve_line(&self, head: PeerId, line: Line, mut frames: Frames) {
        let permit = Arc::clone(&self.0.open_lines).try_acquire_owned();
        let Ok(_permit) = permit else {
            return debug!(peer = %head, "closed a line: there are too many");
        };
        let runs = Runs::default();
        loop {
            let frame = select! {
                frame = frames.next() => frame,
                () = self.reached(Phase::Ended) => None,
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
                    let pong = Frame::new(frame::PONG, Bytes::new());
                    if line.send(pong).await.is_err() {
                        break;
                    }
                }
                Some(Incoming::Whole(_)) => {}
                Some(Incoming::Cut(_)) => {
                    self.0.context.network.blame(&head);
                    break;
                }
                None => break,
            }
        }
        runs.lock().clear();
        // Closes the line once all responses are written. The head then closes its side.
        drop(line);
        let ending = async { while frames.next().await.is_some() {} };
        drop(timeout(END_WITHIN, ending).await);
    }

    /// Closes all lines and waits until their heads have closed them, too, or their time has passed.
    pub(super) async fn end_lines(&self) {
        self.0.phase.send_replace(Phase::Ended);
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
            let refusal = WorkRefusal::Full { n_slots: self.0.n_slots };
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
            // The line is dropped first. A waiter for the permits then closes it with all responses
            // written.
            drop((line, permit));
        });
    }

    /// Reports the state of `order` to the head, if it has a line.
    pub(super) async fn tell_state(&self, line: Option<&Line>, order: &WorkOrder, state: &str) {
        let Some(line) = line else { return };
        let state = OrderState { request_id: order.request_id.clone(), state: state.to_owned() };
        let frame = Frame::new(frame::STATE, json(&state).into());
        if line.send(frame).await.is_err() {
            debug!("the state of an order did not reach its head: the line has ended");
        }
    }

    async fn send(&self, line: &Line, response: Vec<u8>) {
        let (kind, n_bytes) = ("MsgWorkOrderResponse", response.len());
        metrics::count_sent(&self.0.context.metrics, LINE_PROTOCOL, kind, n_bytes);
        let frame = Frame::new(frame::ANSWER, response.into());
        if line.send(frame).await.is_err() {
            debug!("a response did not reach its head: the line has ended");
        }
    }
}
