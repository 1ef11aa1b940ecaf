//! Exchange with heads: lines and roll calls.
//!
//! Each order from a line runs in its own task and is canceled on request. When a line is closed, its
//! running orders are canceled, since no one would receive the results.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::function::FunctionId;
use model::node::PeerId;
use parking_lot::Mutex;
use task::causes::chain;
use task::traces;
use tokio::select;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, debug, info, info_span};
use web::metrics::OTHER;
use web::rate_limit::LogLimit;

use super::{Phase, WorkRefusal, Worker};
use crate::attributes::declare;
use crate::message::{
    Code, LINE_PROTOCOL, Message, OFFER_PROTOCOL, OrderState, RollCall, RollCallResponse,
    WorkOrder, frame, json,
};
use crate::metrics;
use crate::network::Standing;
use crate::network::line::{Frame, Frames, Incoming, Line};

/// Maximum number of open lines. It is much larger than the usual number of heads of a worker. Each line
/// can hold a frame of up to 4 MiB that is being read. Further lines are closed immediately.
pub(super) const LINES_MAX: u32 = 256;

/// Maximum number of open lines of a head. A head needs one line, and a second line while it replaces
/// the first.
const LINES_OF_HEAD_MAX: usize = 4;

/// Time for a head to close a line when its worker is stopping, so that the last responses arrive.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Running orders of a line, by request id, each with the sender that cancels it. Their number is
/// limited by the admission of orders.
type Runs = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

impl Worker {
    /// Serves the line of `head` until it is closed or the head is no longer allowed. Dropping the future
    /// cancels its runs.
    pub async fn serve_line(&self, head: PeerId, line: Line, mut frames: Frames) {
        let permit = Arc::clone(&self.0.open_lines).try_acquire_owned();
        let Ok(_permit) = permit else {
            return debug!(peer = %head, "closed a line: there are too many");
        };
        // The number is limited, since otherwise a single head could take the lines of all other heads.
        let counted = self.0.lines.add(&head, |n_own, _| n_own < LINES_OF_HEAD_MAX);
        let Some(_counted) = counted else {
            return debug!(peer = %head, "closed a line: the head has too many");
        };
        let runs = Runs::default();
        let mut excluded = pin!(self.0.context.network.excluded(&head));
        loop {
            let frame = select! {
                biased;
                () = &mut excluded => None,
                () = self.reached(Phase::Ended) => None,
                frame = frames.next() => frame,
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
                    self.0.context.network.blame(&head);
                    break;
                }
                None => break,
            }
        }
        runs.lock().clear();
        // Dropping the handle closes the line once all responses are written. The head then closes its
        // side.
        drop(line);
        let ending = async { while frames.next().await.is_some() {} };
        drop(timeout(END_WITHIN, ending).await);
    }

    /// Closes all lines and waits until the heads have closed them too, or `END_WITHIN` has passed.
    pub(super) async fn close_lines(&self) {
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
            // The handle of the line is dropped before the order's permit. Once all permits are
            // released, no order keeps a line open.
            drop((line, permit));
        });
    }

    /// Reports the state of `order` to the head, if it has a line.
    pub(super) async fn tell_state(&self, line: Option<&Line>, order: &WorkOrder, state: &str) {
        let Some(line) = line else { return };
        let state = OrderState { request_id: order.request_id.clone(), state: state.to_owned() };
        let frame = Frame { kind: frame::STATE, content: json(&state).into() };
        if line.send(frame).await.is_err() {
            debug!("the state of an order did not reach its head: the line is closed");
        }
    }

    async fn send(&self, line: &Line, response: Vec<u8>) {
        let (kind, n_bytes) = ("MsgWorkOrderResponse", response.len());
        metrics::count_sent(&self.0.context.metrics, LINE_PROTOCOL, kind, n_bytes);
        let frame = Frame { kind: frame::ANSWER, content: response.into() };
        if line.send(frame).await.is_err() {
            debug!("a response did not reach its head: the line is closed");
        }
    }
}

/// Maximum number of roll calls in progress. Most of them wait for a function. Further roll calls get a
/// response only if the function is stored here.
const CALLS_MAX: usize = 256;

/// Number of additional roll calls in progress for named authors, so that unnamed authors cannot exclude
/// them.
const NAMED_CALLS_MAX: usize = 64;

/// Maximum number of roll calls in progress of an unnamed author.
const CALLS_PER_AUTHOR_MAX: usize = 32;

/// Maximum number of authors for which the logged roll calls are counted. Logging is limited per
/// author, since anyone can request functions that do not exist. If there are more authors, the count
/// of the least recently active author is dropped.
pub(super) const AUTHORS_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

impl Worker {
    /// Responds to a roll call of `author` once the function is stored here. Ignores the roll call if it
    /// requires attributes that this node does not declare. Cancel-safe.
    pub async fn roll_call(&self, author: PeerId, call: RollCall) {
        let RollCall { function_id, request_id, .. } = &call;
        let id = FunctionId::parse_any(function_id);
        let is_here = id.is_ok_and(|id| self.0.context.functions.get(id).is_some());
        let is_logged = is_here || self.admit_to_log(&author);
        if is_logged {
            info!(function = function_id, request = request_id, peer = %author, "received roll call request");
        }
        // Ids of functions that are not stored here might be invented, so they are counted together.
        let counted_as = if is_here { function_id } else { OTHER };
        self.0.context.metrics.add(metrics::ROLLCALLS_SEEN, &[counted_as]);
        if !call.attributes.as_ref().is_none_or(|required| declare(&self.0.attributes, required)) {
            debug!(request = request_id, peer = %author, "ignored a roll call for other attributes");
            return;
        }
        let is_named = self.standing(&author) == Standing::Named;
        let n_own_max = if is_named { CALLS_MAX } else { CALLS_PER_AUTHOR_MAX };
        // A repeated call, or one too many, is answered only if the function is stored here, since that
        // answer needs no fetch.
        let (calls, authors) = &self.0.calls;
        let n_max = if is_named { CALLS_MAX + NAMED_CALLS_MAX } else { CALLS_MAX };
        let is_new = |n_same, n_others| n_same == 0 && n_others < n_max;
        let admitted = authors
            .add(&author, |n_own, _| n_own < n_own_max)
            .zip(calls.add(&(author.clone(), request_id.clone()), is_new));
        if admitted.is_none() && !is_here {
            debug!(
                request = request_id,
                "ignored a roll call that is in progress, or one too many"
            );
            return;
        }
        let span = info_span!(
            target: traces::TARGET, "MessageProcess MsgRollCall", otel.kind = "server",
            function.cid = function_id, execution.request.id = request_id, peer.id = %author,
        );
        call.carrier.iter().for_each(|carrier| carrier.adopt(&span));
        let prepared = self.prepare(&author, &call, is_logged).instrument(span).await;
        let (code, message, reason) = match prepared {
            Ok(()) => (Code::ACCEPTED, String::new(), String::new()),
            Err(refusal) => (refusal.code(), refusal.public_text(), chain(&refusal)),
        };
        if is_logged {
            info!(
                function = function_id, request = request_id, peer = %author,
                code = code.as_str(), reason, "reporting for roll call"
            );
        }
        if code == Code::ACCEPTED {
            self.0.context.metrics.add(metrics::ROLLCALLS_APPLIED, &[function_id]);
        }
        // A b7s head of version 1 sends its id in `origin` and expects an id in the response.
        let is_older = !call.origin.is_empty();
        let from =
            if is_older { self.0.context.network.peer_id().to_string() } else { String::new() };
        let response = Message::RollCallResponse(RollCallResponse {
            code,
            function_id: call.function_id,
            request_id: call.request_id,
            message,
            from,
        });
        self.tell(&author, &response).await;
    }

    /// Returns true if another roll call of `author` for an unknown function should be logged.
    fn admit_to_log(&self, author: &PeerId) -> bool {
        let mut logs = self.0.call_logs.lock();
        let log = logs.get_or_insert_mut(author.clone(), LogLimit::default);
        // Beyond the limit, only the number of further roll calls of this author is logged.
        let (is_logged, n_left_out) = log.admit(Instant::now(), 16);
        drop(logs);
        if n_left_out > 0 {
            info!(peer = %author, n_left_out, "omitted roll calls for unknown functions from the log");
        }
        is_logged
    }

    async fn prepare(
        &self,
        author: &PeerId,
        call: &RollCall,
        is_logged: bool,
    ) -> Result<(), WorkRefusal> {
        if call.consensus != 0 {
            return Err(WorkRefusal::Consensus);
        }
        let id = FunctionId::parse_any(&call.function_id)?;
        self.check_free(author)?;
        if self.0.context.functions.get(id).is_none() {
            let request = &call.request_id;
            if is_logged {
                info!(function = %id, request, "roll call but function not installed, installing now");
            }
            self.tell_fetching(author, call).await;
        }
        self.ensure_fetched(author, id).await?;
        self.check_free(author)
    }

    /// Tells a head of this program that this node will be ready once it has fetched the function.
    async fn tell_fetching(&self, author: &PeerId, call: &RollCall) {
        if !self.0.context.peers.speaks(author, OFFER_PROTOCOL) {
            return;
        }
        let response = Message::RollCallResponse(RollCallResponse {
            code: Code::PROCESSING,
            function_id: call.function_id.clone(),
            request_id: call.request_id.clone(),
            ..RollCallResponse::default()
        });
        self.tell(author, &response).await;
    }

    fn check_free(&self, head: &PeerId) -> Result<(), WorkRefusal> {
        if self.is_stopping() {
            return Err(WorkRefusal::Stopping);
        }
        if !self.0.slots.has_room(head, self.standing(head)) {
            return Err(WorkRefusal::Full { n_slots: self.0.n_slots });
        }
        Ok(())
    }
}
