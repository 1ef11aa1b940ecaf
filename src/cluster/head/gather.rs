//! Gathering: work orders to the chosen workers, and their results, with spares for those that fail.

use std::{collections::BTreeMap, time::Duration};

use model::{execution::Outcome, node::PeerId};
use tokio::{
    select,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::{debug, info};
use wire::functions::{EnvVar, ExecuteConfig, Parameter};

use super::{
    Inner, Order,
    inbox::{Inbox, Reply},
    rollcall::Roster,
};
use crate::{
    message::{Code, Message, WORK_PROTOCOL, WorkOrder, WorkOrderResponse, json},
    network::SendError,
};

/// How long one worker has to answer a work order, as in b7s.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How long all of it may take: a worker that says nothing for its whole time, and a spare.
const GATHER_WITHIN: Duration = Duration::from_secs(40);

/// What came of the work orders.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Who answered what.
    pub(super) answers: BTreeMap<PeerId, Outcome>,
    /// Who failed and was not replaced.
    pub(super) failed: BTreeMap<PeerId, Failure>,
    /// Who failed and was replaced by a spare.
    pub(super) replaced: BTreeMap<PeerId, Failure>,
}

/// Why a worker gave no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The work order did not reach it.
    Unreached(String),
    /// It said why not.
    Refused(Code, String),
    /// It said nothing in its time.
    Silent,
    /// Its connection ended.
    Lost,
}

impl Gathered {
    /// Those who took part: who answered, and who failed without a replacement. By id.
    pub(super) fn peers(&self) -> Vec<PeerId> {
        let mut peers: Vec<PeerId> =
            self.answers.keys().chain(self.failed.keys()).cloned().collect();
        peers.sort();
        peers
    }
}

/// Has `chosen` run the order, and returns what came of it when all have answered or failed.
///
/// Dropping it ends the wait and the sending.
pub(super) async fn gather(
    head: &Inner,
    request_id: &str,
    order: &Order,
    chosen: Vec<PeerId>,
    (roster, inbox): (Roster, &mut Inbox),
) -> Gathered {
    let mut work = Work {
        head,
        request_id,
        message: json(&work_order(head, request_id, order)),
        orders: JoinSet::new(),
        open: BTreeMap::new(),
        roster,
        gathered: Gathered::default(),
        end: Instant::now() + GATHER_WITHIN,
    };
    for peer in chosen {
        work.order(peer);
    }
    while let Some(deadline) = work.open.values().min().copied() {
        select! {
            Some(sent) = work.orders.join_next(), if !work.orders.is_empty() => {
                if let Ok((peer, Err(error))) = sent {
                    work.fail(&peer, Failure::Unreached(chain(&error)));
                }
            }
            reply = inbox.next() => work.note(reply),
            () = sleep_until(deadline) => work.expire(Instant::now()),
        }
    }
    work.gathered
}

/// A request's work orders.
struct Work<'a> {
    head: &'a Inner,
    request_id: &'a str,
    message: Vec<u8>,
    orders: JoinSet<(PeerId, Result<(), SendError>)>,
    /// Who has not answered yet, and until when it may.
    open: BTreeMap<PeerId, Instant>,
    roster: Roster,
    gathered: Gathered,
    end: Instant,
}

impl Work<'_> {
    fn order(&mut self, peer: PeerId) {
        let (network, message) = (self.head.network.clone(), self.message.clone());
        self.open.insert(peer.clone(), self.end.min(Instant::now() + ANSWER_WITHIN));
        self.orders.spawn(async move {
            let sent = network.tell(&peer, WORK_PROTOCOL, &message).await;
            (peer, sent)
        });
    }

    fn note(&mut self, reply: Reply) {
        match reply {
            Reply::Answered(peer, response) => {
                if !self.open.contains_key(&peer) {
                    debug!(request = self.request_id, %peer, "ignored a result nobody waits for");
                    return;
                }
                match outcome(*response) {
                    Ok(outcome) => {
                        self.open.remove(&peer);
                        self.gathered.answers.insert(peer, outcome);
                    }
                    Err(failure) => self.fail(&peer, failure),
                }
            }
            Reply::Gone(peer) => {
                self.fail(&peer, Failure::Lost);
                self.roster.note(Reply::Gone(peer));
            }
            reply => self.roster.note(reply),
        }
    }

    fn expire(&mut self, now: Instant) {
        let late = self.open.iter().filter(|(_, deadline)| **deadline <= now);
        let late: Vec<PeerId> = late.map(|(peer, _)| peer.clone()).collect();
        for peer in late {
            self.fail(&peer, Failure::Silent);
        }
    }

    /// Gives up on `peer` if it is waited for, and orders a spare in its place if there is one.
    fn fail(&mut self, peer: &PeerId, failure: Failure) {
        if self.open.remove(peer).is_none() {
            return;
        }
        let spare = if Instant::now() < self.end { self.roster.ready.pop_front() } else { None };
        info!(
            request = self.request_id, %peer, ?failure,
            spare = spare.as_ref().map(PeerId::as_str), "a worker gave no result"
        );
        match spare {
            Some(spare) => {
                self.gathered.replaced.insert(peer.clone(), failure);
                self.order(spare);
            }
            None => {
                self.gathered.failed.insert(peer.clone(), failure);
            }
        }
    }
}

/// Reads a worker's answer. A run that failed is a result too, told by its exit code; an answer that
/// is neither a success nor a failed run says that there was no run.
fn outcome(response: WorkOrderResponse) -> Result<Outcome, Failure> {
    let WorkOrderResponse { code, result, error_message, .. } = response;
    let outcome = Outcome::from(result.result);
    if code == Code::OK || outcome.exit_code != 0 {
        return Ok(outcome);
    }
    Err(Failure::Refused(code, error_message))
}

fn work_order(head: &Inner, request_id: &str, order: &Order) -> Message {
    let parameters = order.arguments.iter();
    let environment = order.environment.iter();
    Message::WorkOrder(WorkOrder {
        function_id: order.function.to_string(),
        method: order.method.to_string(),
        parameters: Some(
            parameters.map(|value| Parameter { name: None, value: value.clone() }).collect(),
        ),
        config: ExecuteConfig {
            number_of_nodes: match order.nodes {
                super::Wanted::Exactly(n) => i64::try_from(n.get()).unwrap_or(i64::MAX),
                super::Wanted::Everyone => -1,
            },
            stdin: order.stdin.clone(),
            env_vars: Some(
                environment
                    .map(|(name, value)| EnvVar { name: name.clone(), value: value.clone() })
                    .collect(),
            ),
            ..ExecuteConfig::default()
        },
        request_id: request_id.to_owned(),
        timestamp: head.clock.now().to_string(),
    })
}

fn chain(error: &SendError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use model::execution::Outcome;
    use wire::functions::OutcomeBody;

    use super::*;
    use crate::message::NodeResult;

    fn response(code: Code, exit_code: i32, error_message: &str) -> WorkOrderResponse {
        let result = OutcomeBody { stdout: String::new(), stderr: String::new(), exit_code };
        WorkOrderResponse {
            code,
            result: NodeResult { result, ..NodeResult::default() },
            error_message: error_message.to_owned(),
            ..WorkOrderResponse::default()
        }
    }

    #[test]
    fn a_failed_run_is_a_result_and_no_run_is_none() {
        assert_eq!(outcome(response(Code::OK, 0, "")), Ok(Outcome::default()));
        let failed = outcome(response(Code::ERROR, 14, ""));
        assert_eq!(failed.map(|outcome| outcome.exit_code), Ok(14));
        let missing = outcome(response(Code::NOT_FOUND, 0, ""));
        assert_eq!(missing, Err(Failure::Refused(Code::NOT_FOUND, String::new())));
    }
}
