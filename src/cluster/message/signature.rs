//! Signed results: what a worker signs, and how a head checks it.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use model::node::PeerId;

use super::NodeResult;
use crate::identity::{Identity, is_signed_by};

/// What the signed bytes begin with, so that a signature of something else is never one of a result.
const CONTEXT: &str = "triptych result 1";

/// What is known of a result's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// There is none.
    No,
    /// It is the peer's own, of this very result.
    Yes,
    /// It is another's, or of another result.
    Wrongly,
}

/// The bytes that a worker signs for a result: a context, the request and the function it is for,
/// and what the run left behind, each with its length before it, so that no two results share them.
#[must_use]
pub fn signed_bytes(request_id: &str, function_id: &str, result: &NodeResult) -> Vec<u8> {
    let outcome = &result.result;
    let exit_code = outcome.exit_code.to_string();
    let parts = [
        CONTEXT,
        request_id,
        function_id,
        result.code.as_str(),
        &exit_code,
        &outcome.stdout,
        &outcome.stderr,
    ];
    let n_bytes = parts.iter().map(|part| part.len() + size_of::<u64>()).sum();
    let mut bytes = Vec::with_capacity(n_bytes);
    for part in parts {
        bytes.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}

impl NodeResult {
    /// Signs the result of `request`: the ids of the request and of its function.
    #[must_use]
    pub fn sign(mut self, request: (&str, &str), identity: &Identity) -> Self {
        let bytes = signed_bytes(request.0, request.1, &self);
        self.signature = HEXLOWER.encode(&identity.sign(&bytes));
        self
    }

    /// Whether `peer` signed this as its result of `request`.
    #[must_use]
    pub fn signed_by(&self, peer: &PeerId, request: (&str, &str)) -> Signed {
        if self.signature.is_empty() {
            return Signed::No;
        }
        let is_own = HEXLOWER_PERMISSIVE.decode(self.signature.as_bytes()).is_ok_and(|signature| {
            is_signed_by(peer, &signed_bytes(request.0, request.1, self), &signature)
        });
        if is_own { Signed::Yes } else { Signed::Wrongly }
    }
}

#[cfg(test)]
mod tests {
    use wire::functions::Outcome;

    use super::*;
    use crate::message::Code;

    fn result(stdout: &str, stderr: &str) -> NodeResult {
        let result = Outcome { stdout: stdout.into(), stderr: stderr.into(), exit_code: 0 };
        NodeResult { code: Code::OK, result, ..NodeResult::default() }
    }

    #[test]
    fn a_signature_is_of_one_node_one_request_and_one_result() {
        let (worker, other) = (Identity::random(), Identity::random());
        let signed = result("out", "").sign(("r", "f"), &worker);
        assert_eq!(signed.signature.len(), 128);
        assert_eq!(signed.signed_by(worker.peer_id(), ("r", "f")), Signed::Yes);
        assert_eq!(signed.signed_by(other.peer_id(), ("r", "f")), Signed::Wrongly);
        assert_eq!(signed.signed_by(worker.peer_id(), ("s", "f")), Signed::Wrongly);
        assert_eq!(signed.signed_by(worker.peer_id(), ("r", "g")), Signed::Wrongly);
        let mut forged = signed.clone();
        forged.result.stdout = "other".into();
        assert_eq!(forged.signed_by(worker.peer_id(), ("r", "f")), Signed::Wrongly);
        let nonsense = NodeResult { signature: "zz".into(), ..signed };
        assert_eq!(nonsense.signed_by(worker.peer_id(), ("r", "f")), Signed::Wrongly);
        assert_eq!(result("out", "").signed_by(worker.peer_id(), ("r", "f")), Signed::No);
    }

    #[test]
    fn moving_text_between_fields_changes_the_signed_bytes() {
        let bytes = |stdout: &str, stderr: &str| signed_bytes("r", "f", &result(stdout, stderr));
        assert_ne!(bytes("ab", ""), bytes("a", "b"));
        assert_ne!(bytes("a", "b"), bytes("", "ab"));
    }
}
