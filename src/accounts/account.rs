//! Accounts, passwords and sessions as validated values.

use std::collections::HashSet;
use std::str::FromStr;
use std::time::Duration;

use data_encoding::HEXLOWER;
use model::text::is_unprintable;
use model::timestamp::Timestamp;
use sha2::{Digest as _, Sha256};
use wire::accounts::AccountBody;

/// Minimum length of an account name, in characters.
const NAME_CHARS_MIN: usize = 3;

/// Maximum length of an account name, in characters. It is enough for nearly every e-mail address.
const NAME_CHARS_MAX: usize = 100;

/// Minimum length of a password, in characters, as recommended by NIST (SP 800-63B).
const PASSWORD_CHARS_MIN: usize = 8;

/// Maximum length of a password, in characters. The maximum can be generous, since hashing takes the
/// same time for any length.
const PASSWORD_CHARS_MAX: usize = 256;

/// Time after which a session expires.
pub const SESSION_LIFETIME: Duration = Duration::from_hours(14 * 24);

/// Maximum length of a stored user agent, in characters. Longer user agents are cut off.
const CLIENT_CHARS_MAX: usize = 120;

/// Id of an account. The ids of deleted accounts are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(i64);

/// Name of an account: a user name or an e-mail address. Names that differ only in case are equal.
#[derive(Debug, Clone)]
pub struct AccountName(String);

/// Minimum length of a token that an operator chooses, in characters.
pub(crate) const TOKEN_CHARS_MIN: usize = 16;

/// Reason why an input is invalid. Never contains the input, which might be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// Invalid account name.
    #[error(
        "account name must have {NAME_CHARS_MIN} to {NAME_CHARS_MAX} letters, digits and \
         . _ - + @, and begin with a letter or digit"
    )]
    AccountName,
    /// The password is too short or too long.
    #[error("password must have {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters")]
    PasswordLength,
    /// The password is easy to guess.
    #[error("password is too easy to guess; choose another one")]
    CommonPassword,
    /// The sign-up setting is neither `open` nor `closed`.
    #[error("sign-up must be open or closed")]
    SignUp,
    /// The text is not the hash of an API key.
    #[error("key hash must have 64 hexadecimal digits")]
    KeyHash,
    /// The operator's token is too short.
    #[error("operator token must have at least {TOKEN_CHARS_MIN} characters")]
    OperatorToken,
}

/// A password. Hidden in `Debug`.
#[derive(derive_more::Debug, Clone)]
#[debug("Password(…)")]
pub struct Password(String);

/// Common passwords in lower case, one per line.
const COMMON_PASSWORDS: &str = include_str!("../../assets/common-passwords.txt");

/// Minimum number of different characters in a password, so that passwords such as `abababab` are
/// rejected.
const DIFFERENT_CHARS_MIN: usize = 4;

/// Stored data of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRecord {
    /// Id of the account.
    pub id: AccountId,
    /// Name as entered at sign-up.
    pub name: String,
    /// Time of sign-up.
    pub created_at: Timestamp,
}

/// Secret in a browser's session cookie. Hidden in `Debug`.
#[derive(derive_more::Debug, Clone)]
#[debug("SessionToken(…)")]
pub struct SessionToken(String);

/// Id of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId(i64);

/// Stored data of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Id of the session.
    pub id: SessionId,
    /// Time of the log-in.
    pub created_at: Timestamp,
    /// Time at which the session expires.
    pub expires_at: Timestamp,
    /// User agent of the browser.
    pub client: String,
}

/// Setting that decides who can create accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumString, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = InputError, parse_err_fn = sign_up_error)]
pub enum SignUp {
    /// Anyone can sign up.
    #[default]
    Open,
    /// Only operators can create accounts.
    Closed,
}

const fn sign_up_error(_: &str) -> InputError {
    InputError::SignUp
}

model::row_id!(AccountId);
model::row_id!(SessionId);

impl AccountName {
    /// Returns the name as entered at sign-up.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the lower-case form, by which names are compared.
    pub(crate) fn to_lowercase(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for AccountName {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-+@".contains(letter);
        let is_long_enough = (NAME_CHARS_MIN..=NAME_CHARS_MAX).contains(&text.len());
        let starts_well = text.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        if is_long_enough && starts_well && text.chars().all(is_allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InputError::AccountName)
        }
    }
}

impl FromStr for Password {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let n_chars = text.chars().count();
        if (PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX).contains(&n_chars) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InputError::PasswordLength)
        }
    }
}

impl Password {
    /// Returns the password in clear text.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Validates a new password for the account called `name`.
    ///
    /// # Errors
    /// [`InputError`] if the password is too short, too long, or easy to guess.
    pub fn choose(name: &AccountName, text: &str) -> Result<Self, InputError> {
        let password: Self = text.parse()?;
        let lower = text.trim().to_lowercase();
        let distinct: HashSet<char> = lower.chars().collect();
        let is_common = COMMON_PASSWORDS.lines().any(|common| common == lower)
            || distinct.len() < DIFFERENT_CHARS_MIN
            || lower == name.to_lowercase();
        if is_common { Err(InputError::CommonPassword) } else { Ok(password) }
    }
}

impl SessionToken {
    /// Generates a random token.
    pub(crate) fn random() -> Self {
        Self(HEXLOWER.encode(&rand::random::<[u8; 32]>()))
    }

    /// Wraps the token from a browser's cookie.
    #[must_use]
    pub fn from_cookie(text: &str) -> Self {
        // The token is not validated, since a forged token matches no stored hash.
        Self(text.to_owned())
    }

    /// Returns the token in clear text, for the cookie.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the SHA-256 hash of the token. Only the hash is stored.
    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl AccountRecord {
    /// Converts the account to the body that its owner sees.
    #[must_use]
    pub fn body(&self) -> AccountBody {
        let created_at = self.created_at.to_string();
        AccountBody { id: self.id.get(), name: self.name.clone(), created_at }
    }
}

/// Removes unprintable characters from a user agent and truncates it to the maximum length.
pub(crate) fn clean_user_agent(text: &str) -> String {
    text.chars().filter(|letter| !is_unprintable(*letter)).take(CLIENT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_name_can_be_a_user_name_or_an_email_address() {
        for valid in ["ada", "Ada.Lovelace+keys@example.org", "0x_-", &"a".repeat(100)] {
            assert!(valid.parse::<AccountName>().is_ok(), "{valid}");
        }
        for invalid in ["", "ab", "a b", "@ada", "<b>ada", "adá", "a\nda", &"a".repeat(101)] {
            assert!(invalid.parse::<AccountName>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn debug_output_hides_secrets() {
        let password: Password = "correct horse".parse().unwrap();
        assert_eq!(format!("{password:?}"), "Password(…)");
        assert_eq!(format!("{:?}", SessionToken::random()), "SessionToken(…)");
        let name: AccountName = "ada.lovelace".parse().unwrap();
        let choose = |text: &str| Password::choose(&name, text).map(drop);
        for text in ["password", "Password123", " 12345678 ", "abababab", "Ada.Lovelace"] {
            assert_eq!(choose(text), Err(InputError::CommonPassword), "{text}");
        }
        assert_eq!(
            (choose("short"), choose("correct horse")),
            (Err(InputError::PasswordLength), Ok(()))
        );
        assert!("password".parse::<Password>().is_ok(), "existing accounts can keep it");
        assert!("short".parse::<Password>().is_err());
        assert!("é".repeat(256).parse::<Password>().is_ok());
        assert!("é".repeat(257).parse::<Password>().is_err());
    }
}
