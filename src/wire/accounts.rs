//! The bodies of accounts, sessions and API keys. An extension.

use model::key::ApiKey;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The paths of accounts; `{…}` marks a part that the request fills in.
pub mod paths {
    /// Signs up: makes an account, and logs it in. Ours, as all of accounts.
    pub const ACCOUNTS_SIGN_UP: &str = "/api/accounts/sign_up";
    /// Logs in: begins a session, whose cookie the other paths of accounts want.
    pub const ACCOUNTS_LOG_IN: &str = "/api/accounts/log_in";
    /// Logs out: ends the session.
    pub const ACCOUNTS_LOG_OUT: &str = "/api/accounts/log_out";
    /// The account that is logged in; deleting it revokes its keys.
    pub const ACCOUNTS_ME: &str = "/api/accounts/me";
    /// Changes the password, and ends every other session.
    pub const ACCOUNTS_PASSWORD: &str = "/api/accounts/password";
    /// Lists the account's sessions; deleting ends all but the one that asks.
    pub const ACCOUNTS_SESSIONS: &str = "/api/accounts/sessions";
    /// One session; deleting ends it.
    pub const ACCOUNTS_SESSION: &str = "/api/accounts/sessions/{id}";
    /// Lists the account's keys; creates one.
    pub const ACCOUNTS_KEYS: &str = "/api/accounts/keys";
    /// One key: gives it another name; deleting revokes it.
    pub const ACCOUNTS_KEY: &str = "/api/accounts/keys/{id}";
    /// Gives a key a new secret.
    pub const ACCOUNTS_KEY_RENEW: &str = "/api/accounts/keys/{id}/renew";
    /// Tells a service of another machine what a key is good for. Wants the operator's token.
    pub const ACCOUNTS_VERIFY: &str = "/api/accounts/verify";
    /// Describes the paths of accounts, as `OpenAPI`.
    pub const ACCOUNTS_OPENAPI: &str = "/api/accounts/openapi.json";
    /// Shows the paths of accounts as a page for people. Needs no session.
    pub const ACCOUNTS_DOCS: &str = "/api/accounts/docs/";
    /// The page for accounts and keys.
    pub const PORTAL: &str = "/portal";
    /// What the page looks like.
    pub const PORTAL_STYLE: &str = "/portal/style.css";
    /// What the page does.
    pub const PORTAL_SCRIPT: &str = "/portal/script.js";
}

/// A text that is sent once and never shown: a password, or a new key. Its `Debug` is `…`.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[debug("…")]
#[serde(transparent)]
pub struct Secret(pub String);

/// The body of `POST /api/accounts/sign_up` and `POST /api/accounts/log_in`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Credentials {
    /// The account's name: a user name or an e-mail address, however its letters are cased.
    pub name: String,
    /// The account's password, 8 to 256 characters.
    pub password: Secret,
}

/// An account: the answer to signing up and logging in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountBody {
    /// The account's number; never used again after the account is deleted.
    pub id: i64,
    /// The account's name, as it was given at sign-up.
    pub name: String,
    /// When it was made.
    pub created_at: String,
}

/// Every account: what `triptych keys account list --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountsBody {
    /// The oldest first.
    pub accounts: Vec<AccountBody>,
}

/// The answer to `GET /api/accounts/me`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MeBody {
    /// Who is logged in; null if nobody is.
    pub account: Option<AccountBody>,
    /// Whether anyone may sign up: `open` or `closed`.
    pub sign_up: String,
}

/// The body of `DELETE /api/accounts/me`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removal {
    /// The password, once more.
    pub password: Secret,
}

/// The body of `POST /api/accounts/password`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PasswordChange {
    /// The password until now.
    pub current: Secret,
    /// The password from now on.
    pub new: Secret,
}

/// The body of `POST /api/accounts/keys` and `PATCH /api/accounts/keys/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyName {
    /// What its owner calls the key.
    pub name: String,
}

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyBody {
    /// The key's number, which stays when its secret is renewed.
    pub id: i64,
    /// Whose it is; null for one that an operator made.
    pub account_id: Option<i64>,
    /// What its owner calls it.
    pub name: String,
    /// How it begins; null for one made before beginnings were kept.
    pub prefix: Option<String>,
    /// `valid` or `revoked`.
    pub state: String,
    /// When it was made.
    pub created_at: String,
    /// When it was last used, to the minute; null if never.
    pub last_used_at: Option<String>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// Its own limits.
    #[serde(default)]
    pub limits: KeyLimits,
}

/// Keys, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeysBody {
    /// At most 1000 keys; revoked ones are left out first.
    pub keys: Vec<KeyBody>,
}

/// A key and its secret, which is shown this once: the answer to creating and renewing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyWithSecret {
    /// The key's record, its fields inline.
    #[serde(flatten)]
    pub key: KeyBody,
    /// What to send as `X-API-Key`.
    pub api_key: Secret,
}

/// The limits of one key. What is left out is as the service has it for all; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct KeyLimits {
    /// Requests in a second, over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// Requests at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Requests in a day of UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_day: Option<u64>,
    /// Bytes in a day of UTC, of requests' and answers' bodies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_day: Option<u64>,
}

/// A session: a browser that is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionBody {
    /// The session's number, for ending it.
    pub id: i64,
    /// When it was begun.
    pub created_at: String,
    /// When it ends by itself.
    pub expires_at: String,
    /// What the browser calls itself.
    pub client: String,
    /// Whether it is the one that asks.
    pub is_current: bool,
}

/// The answer to `GET /api/accounts/sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionsBody {
    /// The newest first.
    pub sessions: Vec<SessionBody>,
}

/// How much there was of something that is done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoneBody {
    /// How many sessions ended, or keys were revoked.
    pub n_done: u64,
}

/// The body of `POST /api/accounts/verify`, from a service of another machine: one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct VerifyRequest {
    /// The SHA-256 of the key's text, as 64 hexadecimal digits: the key itself does not travel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_hash: Option<String>,
    /// The key's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
}

/// The answer to `POST /api/accounts/verify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifyResponse {
    /// The key, if it exists and is not revoked.
    pub key: Option<VerifiedBody>,
}

/// What a service needs to know of a good key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifiedBody {
    /// The key's number.
    pub id: i64,
    /// Whose it is; null for one that an operator made.
    pub account_id: Option<i64>,
    /// Its own limits.
    pub limits: KeyLimits,
}

impl From<&ApiKey> for Secret {
    fn from(key: &ApiKey) -> Self {
        Self(key.reveal().to_owned())
    }
}
