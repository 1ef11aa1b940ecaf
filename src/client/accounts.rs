//! Client of an accounts service: manages the API keys of an account, and verifies keys for services on
//! other machines.

use reqwest::header::SET_COOKIE;
use wire::accounts::{
    Credentials, KeyBody, KeyName, KeyWithSecret, KeysBody, Secret, VerifiedBody, VerifyRequest,
    VerifyResponse,
};
use wire::paths;

use crate::error::ClientError;
use crate::transport::Transport;

/// An accounts service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Accounts {
    transport: Transport,
}

impl Accounts {
    /// Returns a client for the service at the address of `transport`, which may end in `/api`. To verify
    /// keys, `transport` must send the operator's token.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self { transport: transport.strip_segment("api") }
    }

    /// Logs in to an account, or creates it if `is_new` is true. Returns the cookie of the session.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the name or password is wrong, or no one can sign up.
    pub async fn log_in(
        &self,
        credentials: &Credentials,
        is_new: bool,
    ) -> Result<Secret, ClientError> {
        let path = if is_new { paths::ACCOUNTS_SIGN_UP } else { paths::ACCOUNTS_LOG_IN };
        let response = self.transport.post(path).body(credentials).open().await?;
        let cookie = response.headers().get(SET_COOKIE).and_then(|value| value.to_str().ok());
        let pair = cookie.and_then(|text| text.split(';').next());
        let missing = || ClientError::shape("a session", "the response has no cookie");
        pair.map(|pair| Secret(pair.to_owned())).ok_or_else(missing)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// [`ClientError`] if the call fails.
    pub async fn log_out(&self, session: &Secret) -> Result<(), ClientError> {
        self.transport.post(paths::ACCOUNTS_LOG_OUT).session(session).done().await
    }

    /// Lists the keys of the session's account, newest first. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 401 if the session has ended.
    pub async fn keys(&self, session: &Secret) -> Result<Vec<KeyBody>, ClientError> {
        let call = self.transport.get(paths::ACCOUNTS_KEYS).session(session);
        Ok(call.json::<KeysBody>("a list of keys").await?.keys)
    }

    /// Creates a key. Its secret is returned only now. If the future is dropped, the key might still be
    /// created.
    ///
    /// # Errors
    /// Same as [`Self::keys`], or if the name is invalid or the account has too many keys.
    pub async fn create_key(
        &self,
        session: &Secret,
        name: &str,
    ) -> Result<KeyWithSecret, ClientError> {
        let call = self.transport.post(paths::ACCOUNTS_KEYS).session(session);
        call.body(&KeyName { name: name.to_owned() }).json("a key").await
    }

    /// Permanently revokes a key of the session's account.
    ///
    /// # Errors
    /// Same as [`Self::keys`], with status 404 if the key does not exist or is already revoked.
    pub async fn revoke_key(&self, session: &Secret, id: i64) -> Result<(), ClientError> {
        let path = paths::ACCOUNTS_KEY.replace("{id}", &id.to_string());
        self.transport.delete(&path).session(session).done().await
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
