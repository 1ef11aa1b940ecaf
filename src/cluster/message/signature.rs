//! Signed results: what a worker signs, and how a head checks it.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use model::node::PeerId;
use sha2::{Digest as _, Sha256};

use super::{NodeResult, WorkOrder};
use crate::identity::{Identity, is_signed_by};

/// What the signed bytes begin with, so that a signature of something else is never one of a result.
const CONTEXT: &str = "triptych result 1";

/// The same of the signature that covers the call, too.
const CALL_CONTEXT: &str = "triptych result 2";

/// Start of the bytes of which a call's digest is made.
const DIGEST_CONTEXT: &str = "triptych call 1";

/// SHA-256 of a call and of the head that gave it: method, arguments, environment and standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallDigest([u8; 32]);

impl CallDigest {
    /// Returns the digest of `call` as `head` gave it.
    pub fn new(call: &WorkOrder, head: &PeerId) -> Self {
        let mut hash = Sha256::new();
        let mut add = |part: &str| {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part.as_bytes());
        };
        for part in [DIGEST_CONTEXT, head.as_str(), &call.method] {
            add(part);
        }
        let arguments = call.arguments();
        add(&arguments.len().to_string());
        for argument in &arguments {
            add(argument);
        }
        let environment = call.config.environment();
        add(&environment.len().to_string());
        environment.iter().flat_map(|(name, value)| [name, value]).for_each(|text| add(text));
        call.config.stdin.iter().for_each(|stdin| add(stdin));
        Self(hash.finalize().into())
    }
}

/// What a result is of: the ids of a request and of its function, and the call.
#[derive(Debug, Clone, Copy)]
pub struct SignedCall<'a> {
    /// Id of the request.
    pub request_id: &'a str,
    /// Id of the function, as the work order names it.
    pub function_id: &'a str,
    /// Digest of the call and its head.
    pub call: CallDigest,
}

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
pub fn signed_bytes(request_id: &str, function_id: &str, result: &NodeResult) -> Vec<u8> {
    signed_parts(CONTEXT, &[request_id, function_id], result)
}

/// Returns the bytes that a worker signs in addition: as [`signed_bytes`], with another context and
/// the digest of the call after the function. So the signature shows a third party what was run, and
/// for which head.
pub fn call_signed_bytes(of: SignedCall<'_>, result: &NodeResult) -> Vec<u8> {
    let digest = HEXLOWER.encode(&of.call.0);
    signed_parts(CALL_CONTEXT, &[of.request_id, of.function_id, &digest], result)
}

fn signed_parts(context: &str, of: &[&str], result: &NodeResult) -> Vec<u8> {
    let outcome = &result.result;
    let exit_code = outcome.exit_code.to_string();
    let left = [result.code.as_str(), &exit_code, &outcome.stdout, &outcome.stderr];
    let parts: Vec<&str> = [context].into_iter().chain(of.iter().copied()).chain(left).collect();
    let n_bytes = parts.iter().map(|part| part.len() + size_of::<u64>()).sum();
    let mut bytes = Vec::with_capacity(n_bytes);
    for part in parts {
        bytes.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}

impl NodeResult {
    /// Signs the result of a call.
    #[must_use]
    pub fn sign(mut self, of: SignedCall<'_>, identity: &Identity) -> Self {
        let bytes = signed_bytes(of.request_id, of.function_id, &self);
        self.signature = HEXLOWER.encode(&identity.sign(&bytes));
        self.call_signature = HEXLOWER.encode(&identity.sign(&call_signed_bytes(of, &self)));
        self
    }

    /// Whether `peer` signed this as its result of a call. Workers of earlier versions sign less of it,
    /// and those of b7s nothing.
    pub fn signed_by(&self, peer: &PeerId, of: SignedCall<'_>) -> Signed {
        let is_own = |signature: &str, bytes: Vec<u8>| {
            let signature = HEXLOWER_PERMISSIVE.decode(signature.as_bytes());
            signature.is_ok_and(|signature| is_signed_by(peer, &bytes, &signature))
        };
        if self.signature.is_empty() && self.call_signature.is_empty() {
            return Signed::No;
        }
        // The one that covers the call covers all that the other does.
        let is_own = if self.call_signature.is_empty() {
            is_own(&self.signature, signed_bytes(of.request_id, of.function_id, self))
        } else {
            is_own(&self.call_signature, call_signed_bytes(of, self))
        };
        if is_own { Signed::Yes } else { Signed::Wrongly }
    }
}

#[cfg(test)]
mod tests {
    use wire::functions::{EnvVar, ExecuteConfig, Outcome, Parameter};

    use super::*;
    use crate::message::Code;

    fn result(stdout: &str, stderr: &str) -> NodeResult {
        let result = Outcome { stdout: stdout.into(), stderr: stderr.into(), exit_code: 0 };
        NodeResult { code: Code::OK, result, ..NodeResult::default() }
    }

    fn call(arguments: &[&str]) -> WorkOrder {
        let parameter = |value: &&str| Parameter { name: None, value: (*value).to_owned() };
        let parameters = Some(arguments.iter().map(parameter).collect());
        WorkOrder { method: "m.wasm".into(), parameters, ..WorkOrder::default() }
    }

    fn of<'a>(request_id: &'a str, function_id: &'a str, head: &Identity) -> SignedCall<'a> {
        let call = CallDigest::new(&call(&["a", "b"]), head.peer_id());
        SignedCall { request_id, function_id, call }
    }

    #[test]
    fn a_signature_is_of_one_node_one_request_and_one_result() {
        let (worker, other) = (Identity::random(), Identity::random());
        let (head, peer) = (Identity::random(), worker.peer_id());
        let signed = result("out", "").sign(of("r", "f", &head), &worker);
        assert_eq!((signed.signature.len(), signed.call_signature.len()), (128, 128));
        assert_eq!(signed.signed_by(peer, of("r", "f", &head)), Signed::Yes);
        assert_eq!(signed.signed_by(other.peer_id(), of("r", "f", &head)), Signed::Wrongly);
        assert_eq!(signed.signed_by(peer, of("s", "f", &head)), Signed::Wrongly);
        assert_eq!(signed.signed_by(peer, of("r", "g", &head)), Signed::Wrongly);
        let mut forged = signed.clone();
        forged.result.stdout = "other".into();
        assert_eq!(forged.signed_by(peer, of("r", "f", &head)), Signed::Wrongly);
        let nonsense = NodeResult { call_signature: "zz".into(), ..signed };
        assert_eq!(nonsense.signed_by(peer, of("r", "f", &head)), Signed::Wrongly);
        assert_eq!(result("out", "").signed_by(peer, of("r", "f", &head)), Signed::No);
    }

    #[test]
    fn signature_covers_the_call_and_its_head() {
        let (worker, head, other) = (Identity::random(), Identity::random(), Identity::random());
        let signed = result("out", "").sign(of("r", "f", &head), &worker);
        let check = |call: &WorkOrder, head: &Identity, want: Signed| {
            let call = CallDigest::new(call, head.peer_id());
            let of = SignedCall { request_id: "r", function_id: "f", call };
            assert_eq!(signed.signed_by(worker.peer_id(), of), want);
        };
        let same = call(&["a", "b"]);
        check(&same, &head, Signed::Yes);
        check(&same, &other, Signed::Wrongly);
        check(&call(&["ab"]), &head, Signed::Wrongly);
        let method = "n.wasm".into();
        check(&WorkOrder { method, ..same.clone() }, &head, Signed::Wrongly);
        let config = ExecuteConfig { stdin: Some("in".into()), ..ExecuteConfig::default() };
        check(&WorkOrder { config, ..same.clone() }, &head, Signed::Wrongly);
        let env_vars = Some(vec![EnvVar { name: "a".into(), value: "b".into() }]);
        let config = ExecuteConfig { env_vars, ..ExecuteConfig::default() };
        check(&WorkOrder { config, ..same }, &head, Signed::Wrongly);
        let earlier = NodeResult { call_signature: String::new(), ..signed.clone() };
        let of = of("r", "f", &other);
        assert_eq!(earlier.signed_by(worker.peer_id(), of), Signed::Yes, "of an earlier version");
        let stripped = NodeResult { signature: String::new(), ..signed.clone() };
        assert_eq!(stripped.signed_by(worker.peer_id(), of), Signed::Wrongly);
        let nonsense = NodeResult { signature: "zz".into(), ..earlier };
        assert_eq!(nonsense.signed_by(worker.peer_id(), of), Signed::Wrongly);
    }

    #[test]
    fn moving_text_between_fields_changes_the_signed_bytes() {
        let bytes = |stdout: &str, stderr: &str| signed_bytes("r", "f", &result(stdout, stderr));
        assert_ne!(bytes("ab", ""), bytes("a", "b"));
        assert_ne!(bytes("a", "b"), bytes("", "ab"));
    }
}
