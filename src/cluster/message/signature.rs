//! Signed results: the bytes that a worker signs, and their verification by a head.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use model::node::PeerId;
use sha2::{Digest as _, Sha256};

use super::{NodeResult, WorkOrder};
use crate::identity::{Identity, is_signed_by};

/// SHA-256 of a call (method, arguments, environment and standard input) and of the id of the head that
/// requests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallDigest([u8; 32]);

impl CallDigest {
    /// Returns the digest of `call` by `head`.
    pub fn new(call: &WorkOrder, head: &PeerId) -> Self {
        let mut hash = Sha256::new();
        let mut add = |part: &str| {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part.as_bytes());
        };
        // The first part names the purpose, so that the digest differs from digests of other data.
        for part in ["triptych call 1", head.as_str(), &call.method] {
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

/// Identifies the run of a result: request id, function id and call.
#[derive(Debug, Clone, Copy)]
pub struct SignedCall<'a> {
    /// Id of the request.
    pub request_id: &'a str,
    /// Id of the function, as in the work order.
    pub function_id: &'a str,
    /// Digest of the call and its head.
    pub call: CallDigest,
}

/// Outcome of checking a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// There is no signature.
    No,
    /// The peer signed this result.
    Yes,
    /// The signature belongs to another peer or another result.
    Wrongly,
}

/// Returns the bytes that a worker signs: a context, the request, the function, the digest of the call,
/// and the result. Each part is preceded by its length, so that different results never have equal
/// bytes. The hashes of output that is not UTF-8 are last. The signature proves to a third party what was
/// run and for which head.
pub fn signed_bytes(of: SignedCall<'_>, result: &NodeResult) -> Vec<u8> {
    let outcome = &result.result;
    let (digest, exit_code) = (HEXLOWER.encode(&of.call.0), outcome.exit_code.to_string());
    // The first part names the purpose, so that a signature of something else is never valid for a
    // result.
    let call = ["triptych result 2", of.request_id, of.function_id, &digest];
    let result = [result.code.as_str(), &exit_code, &outcome.stdout, &outcome.stderr];
    let hashes = [outcome.stdout_sha256.as_str(), &outcome.stderr_sha256];
    let hashes = if hashes == ["", ""] { &[][..] } else { &hashes };
    let parts = || call.iter().chain(&result).chain(hashes);
    let n_bytes = parts().map(|part| part.len() + size_of::<u64>()).sum();
    let mut bytes = Vec::with_capacity(n_bytes);
    for part in parts() {
        bytes.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}

impl NodeResult {
    /// Signs the result of a call.
    #[must_use]
    pub fn sign(mut self, of: SignedCall<'_>, identity: &Identity) -> Self {
        self.call_signature = HEXLOWER.encode(&identity.sign(&signed_bytes(of, &self)));
        self
    }

    /// Checks whether `peer` signed this as its result of a call. b7s workers do not sign.
    pub fn signed_by(&self, peer: &PeerId, of: SignedCall<'_>) -> Signed {
        if self.call_signature.is_empty() {
            return Signed::No;
        }
        match HEXLOWER_PERMISSIVE.decode(self.call_signature.as_bytes()) {
            Ok(signature) if is_signed_by(peer, &signed_bytes(of, self), &signature) => Signed::Yes,
            _ => Signed::Wrongly,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::functions::{EnvVar, ExecuteConfig, Outcome, Parameter};

    use super::*;
    use crate::message::Code;

    fn result(stdout: &str, stderr: &str) -> NodeResult {
        let result = Outcome { stdout: stdout.into(), stderr: stderr.into(), ..Outcome::default() };
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
    fn signature_is_invalid_if_the_node_request_id_function_or_result_differs() {
        let (worker, other) = (Identity::random(), Identity::random());
        let (head, peer) = (Identity::random(), worker.peer_id());
        let signed = result("out", "").sign(of("r", "f", &head), &worker);
        assert_eq!(signed.call_signature.len(), 128);
        assert_eq!(signed.signed_by(peer, of("r", "f", &head)), Signed::Yes);
        assert_eq!(signed.signed_by(other.peer_id(), of("r", "f", &head)), Signed::Wrongly);
        assert_eq!(signed.signed_by(peer, of("s", "f", &head)), Signed::Wrongly);
        assert_eq!(signed.signed_by(peer, of("r", "g", &head)), Signed::Wrongly);
        let mut forged = signed.clone();
        forged.result.stdout = "other".into();
        assert_eq!(forged.signed_by(peer, of("r", "f", &head)), Signed::Wrongly);
        let mut forged = signed.clone();
        forged.result.stdout_sha256 = "00".into();
        assert_eq!(forged.signed_by(peer, of("r", "f", &head)), Signed::Wrongly);
        let nonsense = NodeResult { call_signature: "zz".into(), ..signed };
        assert_eq!(nonsense.signed_by(peer, of("r", "f", &head)), Signed::Wrongly);
        assert_eq!(result("out", "").signed_by(peer, of("r", "f", &head)), Signed::No);
    }

    #[test]
    fn signature_is_invalid_if_the_work_order_or_the_head_differs() {
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
    }

    #[test]
    fn moving_text_between_fields_changes_the_signed_bytes() {
        let head = Identity::random();
        let bytes =
            |stdout: &str, stderr: &str| signed_bytes(of("r", "f", &head), &result(stdout, stderr));
        assert_ne!(bytes("ab", ""), bytes("a", "b"));
        assert_ne!(bytes("a", "b"), bytes("", "ab"));
        let hashed = |stdout_sha256: &str, stderr_sha256: &str| {
            let (stdout_sha256, stderr_sha256) = (stdout_sha256.into(), stderr_sha256.into());
            let outcome = Outcome { stdout_sha256, stderr_sha256, ..Outcome::default() };
            signed_bytes(
                of("r", "f", &head),
                &NodeResult { result: outcome, ..NodeResult::default() },
            )
        };
        assert_ne!(hashed("a", ""), hashed("", "a"));
    }
}
