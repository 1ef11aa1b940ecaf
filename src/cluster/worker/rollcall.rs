//! Answering roll calls: yes, or why not.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use model::{function::FunctionId, node::PeerId};
use parking_lot::Mutex;
use tracing::{debug, info};
use wire::functions::AttributesBody;

use super::{Refusal, Worker};
use crate::{
    message::{Code, Message, OFFER_PROTOCOL, RollCall, RollCallResponse},
    metrics,
};

/// Roll calls handled at once, most of them waiting for a function. More are answered only where the
/// function is here.
const CALLS_MAX: usize = 256;

/// A roll call that is being handled. Published again meanwhile, it is not handled twice.
struct Call<'a> {
    calls: &'a Mutex<BTreeSet<(PeerId, String)>>,
    call: (PeerId, String),
}

impl<'a> Call<'a> {
    fn admitted(
        calls: &'a Mutex<BTreeSet<(PeerId, String)>>,
        author: &PeerId,
        request_id: &str,
    ) -> Option<Self> {
        let call = (author.clone(), request_id.to_owned());
        let mut admitted = calls.lock();
        let is_admitted = admitted.len() < CALLS_MAX && admitted.insert(call.clone());
        is_admitted.then(|| Self { calls, call })
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.call);
    }
}

impl Worker {
    /// Answers a roll call of `author`, once it has the function. One that asks for attributes which
    /// this node does not declare is not answered. Cancel-safe.
    pub async fn roll_call(&self, author: PeerId, call: RollCall) {
        let RollCall { function_id, request_id, .. } = &call;
        info!(function = function_id, request = request_id, peer = %author, "received roll call request");
        self.0.metrics.add(metrics::ROLLCALLS_SEEN, &[function_id]);
        if !self.declares(call.attributes.as_ref()) {
            debug!(request = request_id, peer = %author, "ignored a roll call: this node is not meant");
            return;
        }
        let call_admitted = Call::admitted(&self.0.calls, &author, request_id);
        let is_here = function_id.parse().is_ok_and(|id| self.0.functions.get(id).is_some());
        if call_admitted.is_none() && !is_here {
            debug!(request = request_id, "ignored a roll call: it or too many are being handled");
            return;
        }
        let (code, message) = match self.readied(&author, &call).await {
            Ok(()) => (Code::ACCEPTED, String::new()),
            Err(refusal) => (refusal.code(), refusal.told()),
        };
        info!(
            function = function_id, request = request_id, peer = %author,
            code = code.as_str(), reason = message, "reporting for roll call"
        );
        if code == Code::ACCEPTED {
            self.0.metrics.add(metrics::ROLLCALLS_APPLIED, &[function_id]);
        }
        // A head of the older generation names itself, and expects the same.
        let is_older = !call.origin.is_empty();
        let from = if is_older { self.0.network.peer_id().to_string() } else { String::new() };
        let response = Message::RollCallResponse(RollCallResponse {
            code,
            function_id: call.function_id,
            request_id: call.request_id,
            message,
            from,
        });
        self.tell(&author, &response).await;
    }

    /// Whether this node declares what is asked for. Nobody attests what it declares.
    fn declares(&self, asked: Option<&AttributesBody>) -> bool {
        let Some(asked) = asked else { return true };
        let mut values = asked.values.iter().flatten();
        let are_attested = asked.attestors.as_ref().is_some_and(|attestors| {
            let named =
                attestors.as_object().map(|lists| lists.values().any(|list| !is_empty(list)));
            named.unwrap_or(true)
        });
        !asked.attestation_required
            && !are_attested
            && !self.0.attributes.is_empty()
            && values.all(|value| self.0.attributes.get(&value.name) == Some(&value.value))
    }

    async fn readied(&self, author: &PeerId, call: &RollCall) -> Result<(), Refusal> {
        if call.consensus != 0 {
            return Err(Refusal::Consensus);
        }
        let id = FunctionId::of_any_kind(&call.function_id)?;
        self.check_free()?;
        if self.0.functions.get(id).is_none() {
            let request = &call.request_id;
            info!(function = %id, request, "roll call but function not installed, installing now");
            self.tell_fetching(author, call).await;
        }
        self.fetched(author, id).await?;
        self.check_free()
    }

    /// Tells a head of ours that this node will be ready once it has fetched the function.
    async fn tell_fetching(&self, author: &PeerId, call: &RollCall) {
        if !self.0.peers.speaking(OFFER_PROTOCOL).contains(author) {
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

    fn check_free(&self) -> Result<(), Refusal> {
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        if self.0.slots.available_permits() == 0 {
            return Err(Refusal::Full { n_slots: self.0.n_slots });
        }
        Ok(())
    }
}

fn is_empty(list: &serde_json::Value) -> bool {
    list.is_null() || list.as_array().is_some_and(Vec::is_empty)
}
