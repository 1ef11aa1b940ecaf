//! Verifies keys with the machine that has the accounts.

use wire::{
    accounts::{VerifiedBody, VerifyRequest, VerifyResponse},
    paths,
};

use crate::{error::ClientError, transport::Transport};

/// A service that answers for accounts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Accounts {
    transport: Transport,
}

impl Accounts {
    /// A service behind `transport`, whose address may end in `/api`, and which carries the
    /// operator's token.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self { transport: transport.strip_segment("api") }
    }

    /// Returns what is known of the key whose SHA-256 is `key_hash`, as 64 hexadecimal digits; none
    /// if it opens nothing.
    ///
    /// # Errors
    /// A [`ClientError`] that names what failed.
    pub async fn verify(&self, key_hash: String) -> Result<Option<VerifiedBody>, ClientError> {
        self.ask(&VerifyRequest { key_hash: Some(key_hash), ..VerifyRequest::default() }).await
    }

    /// Returns what is known of the key of this number; none if there is none, or it is revoked.
    ///
    /// # Errors
    /// A [`ClientError`] that names what failed.
    pub async fn find_by_id(&self, id: i64) -> Result<Option<VerifiedBody>, ClientError> {
        self.ask(&VerifyRequest { id: Some(id), ..VerifyRequest::default() }).await
    }

    async fn ask(&self, request: &VerifyRequest) -> Result<Option<VerifiedBody>, ClientError> {
        let answer: VerifyResponse = self
            .transport
            .post(paths::ACCOUNTS_VERIFY)
            .body(request)
            .json("what a key is good for")
            .await?;
        Ok(answer.key)
    }
}
