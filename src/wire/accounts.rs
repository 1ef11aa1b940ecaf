//! Bodies of the accounts API: accounts, sessions and API keys. An extension of the documented APIs.

use model::key::ApiKey;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Paths of the accounts API. `{…}` marks a path parameter.
pub mod paths {
    /// Signs up: creates an account and starts a session.
    pub const ACCOUNTS_SIGN_UP: &str = "/api/accounts/sign_up";
    /// Logs in: starts a session. Except for signing up and verifying keys, all other paths of this API
    /// require the session's cookie.
    pub const ACCOUNTS_LOG_IN: &str = "/api/accounts/log_in";
    /// Logs out: ends the session.
    pub const ACCOUNTS_LOG_OUT: &str = "/api/accounts/log_out";
    /// The account that is logged in. Deleting the account revokes its keys.
    pub const ACCOUNTS_ME: &str = "/api/accounts/me";
    /// Changes the password and ends all other sessions.
    pub const ACCOUNTS_PASSWORD: &str = "/api/accounts/password";
    /// Lists the account's sessions. A `DELETE` ends all sessions except the current one.
    pub const ACCOUNTS_SESSIONS: &str = "/api/accounts/sessions";
    /// One session. A `DELETE` ends the session.
    pub const ACCOUNTS_SESSION: &str = "/api/accounts/sessions/{id}";
    /// Lists the account's keys and creates keys.
    pub const ACCOUNTS_KEYS: &str = "/api/accounts/keys";
    /// One key. A `PATCH` renames the key, a `DELETE` revokes the key.
    pub const ACCOUNTS_KEY: &str = "/api/accounts/keys/{id}";
    /// Replaces the secret of a key.
    pub const ACCOUNTS_KEY_RENEW: &str = "/api/accounts/keys/{id}/renew";
    /// Verifies a key on behalf of a service on another machine. Requires the operator's token.
    pub const ACCOUNTS_VERIFY: &str = "/api/accounts/verify";
    /// `OpenAPI` description of the accounts API.
    pub const ACCOUNTS_OPENAPI: &str = "/api/accounts/openapi.json";
    /// The same description as an HTML page. No session is required.
    pub const ACCOUNTS_DOCS: &str = "/api/accounts/docs/";
    /// All other paths of the accounts API.
    pub const ACCOUNTS_OTHERS: &str = "/api/accounts/{*path}";
    /// The portal: the page on which people manage their accounts and keys.
    pub const PORTAL: &str = "/portal";
    /// Style sheet of the portal.
    pub const PORTAL_STYLE: &str = "/portal/style.css";
    /// Script of the portal.
    pub const PORTAL_SCRIPT: &str = "/portal/script.js";
}

/// Secret text, such as a password or a new key. `Debug` prints only `…`.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[debug("…")]
#[serde(transparent)]
pub struct Secret(pub String);

/// Body of `POST /api/accounts/sign_up` and `POST /api/accounts/log_in`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Credentials {
    /// Name of the account: a user name or an e-mail address. Upper and lower case are not
    /// distinguished.
    pub name: String,
    /// Password of the account, 8 to 256 characters.
    pub password: Secret,
}

/// An account. The response to signing up and logging in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountBody {
    /// Id of the account. Ids of deleted accounts are not reused.
    pub id: i64,
    /// Name of the account as entered at sign-up.
    pub name: String,
    /// Time of sign-up.
    pub created_at: String,
}

/// All accounts, as printed by `triptych keys account list --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountsBody {
    /// Accounts, oldest first.
    pub accounts: Vec<AccountBody>,
}

/// Response to `GET /api/accounts/me`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MeBody {
    /// The account that is logged in; null if no account is logged in.
    pub account: Option<AccountBody>,
    /// `open` if anyone can sign up, otherwise `closed`.
    pub sign_up: String,
}

/// Body of `DELETE /api/accounts/me`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removal {
    /// Current password, which confirms the deletion.
    pub password: Secret,
}

/// Body of `POST /api/accounts/password`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasswordChange {
    /// Password that the account has now.
    pub current: Secret,
    /// Password that the account gets.
    pub new: Secret,
}

/// Body of `POST /api/accounts/keys` and `PATCH /api/accounts/keys/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyName {
    /// Name of the key, chosen by its owner.
    pub name: String,
}

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyBody {
    /// Id of the key, which does not change when its secret is renewed.
    pub id: i64,
    /// Id of the owner; null for an operator's key.
    pub account_id: Option<i64>,
    /// Name chosen by the owner.
    pub name: String,
    /// First characters of the key; null for a key that was created before these characters were
    /// stored.
    pub prefix: Option<String>,
    /// `valid` or `revoked`.
    pub state: String,
    /// Time at which the key was created.
    pub created_at: String,
    /// Time of the last use, to the minute; null if the key was never used.
    pub last_used_at: Option<String>,
    /// Time of revocation; null for a valid key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// Limits of this key.
    #[serde(default)]
    pub limits: KeyLimits,
}

/// Keys, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeysBody {
    /// Keys of the account, at most 1000. If there are more keys, revoked keys are omitted first.
    pub keys: Vec<KeyBody>,
}

/// A key with its secret, which is returned only once. The response to creating and renewing a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyWithSecret {
    /// Description of the key. Its fields are inline.
    #[serde(flatten)]
    pub key: KeyBody,
    /// Secret, which clients send in the header `X-API-Key`.
    pub api_key: Secret,
}

/// Limits of one key. For an omitted field, the service's limit applies. 0 means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct KeyLimits {
    /// Sustained requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// Burst of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Requests per UTC day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_day: Option<u64>,
    /// Bytes of request and response bodies per UTC day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_day: Option<u64>,
}

/// A session: a browser in which the account is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionBody {
    /// Id of the session.
    pub id: i64,
    /// Time of the log-in.
    pub created_at: String,
    /// Time at which the session expires.
    pub expires_at: String,
    /// User agent of the browser.
    pub client: String,
    /// True for the session of this request.
    pub is_current: bool,
}

/// Response to `GET /api/accounts/sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionsBody {
    /// Sessions, newest first.
    pub sessions: Vec<SessionBody>,
}

/// Response to a request that ends sessions or revokes keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoneBody {
    /// Number of ended sessions or revoked keys.
    pub n_done: u64,
}

/// Body of `POST /api/accounts/verify`. Exactly one of the two fields must be set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct VerifyRequest {
    /// SHA-256 of the key's text, as 64 hexadecimal digits. The key itself is not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_hash: Option<String>,
    /// Id of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
}

/// Response to `POST /api/accounts/verify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifyResponse {
    /// The key; null if the key does not exist or is revoked.
    pub key: Option<VerifiedBody>,
}

/// Data of a valid key that a service needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifiedBody {
    /// Id of the key.
    pub id: i64,
    /// Id of the owner; null for an operator's key.
    pub account_id: Option<i64>,
    /// Limits of this key.
    pub limits: KeyLimits,
}

impl From<&ApiKey> for Secret {
    fn from(key: &ApiKey) -> Self {
        Self(key.reveal().to_owned())
    }
}
