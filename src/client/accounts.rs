//! Client of an accounts service, which verifies API keys for services on other machines.

use wire::accounts::{VerifiedBody, VerifyRequest, VerifyResponse};
use wire::paths;

use crate::error::ClientError;
use crate::transport::Transport;

/// An accounts service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Accounts {
    transport: Transport,
}

impl Accounts {
    /// Returns a client for the service at the address of `transport`, which must send the operator's
    /// token. The address may end in `/api`.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self { transport: transport.strip_segment("api") }
    }

    /// Returns the key with the SHA-256 hash `key_hash` (64 hexadecimal digits), or `None` if no valid
    /// key has this hash.
    ///
    /// # Errors
    /// [`ClientError`] if the call fails.
    pub async fn verify(&self, key_hash: String) -> Result<Option<VerifiedBody>, ClientError> {
        self.ask(&VerifyRequest { key_hash: Some(key_hash), ..VerifyRequest::default() }).await
    }

    /// Returns the key with this id, or `None` if it does not exist or is revoked.
    ///
    /// # Errors
    /// [`ClientError`] if the call fails.
    pub async fn find_by_id(&self, id: i64) -> Result<Option<VerifiedBody>, ClientError> {
        self.ask(&VerifyRequest { id: Some(id), ..VerifyRequest::default() }).await
    }

    async fn ask(&self, request: &VerifyRequest) -> Result<Option<VerifiedBody>, ClientError> {
        let answer: VerifyResponse = self
            .transport
            .post(paths::ACCOUNTS_VERIFY)
            .body(request)
            .json("the description of a key")
            .await?;
        Ok(answer.key)
    }
}
