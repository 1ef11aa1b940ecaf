//! Accounts, passwords and sessions as values: which names are valid, and which texts are secret.

use std::{collections::HashSet, str::FromStr, time::Duration};

use data_encoding::HEXLOWER;
use model::{text::is_unprintable, timestamp::Timestamp};
use sha2::{Digest as _, Sha256};
use wire::accounts::AccountBody;

/// The shortest name of an account, in characters.
const NAME_CHARS_MIN: usize = 3;

/// The longest name of an account, in characters: long enough for nearly every e-mail address.
const NAME_CHARS_MAX: usize = 100;

/// The shortest password, in characters, as the recommendations of NIST (SP 800-63B) have it.
const PASSWORD_CHARS_MIN: usize = 8;

/// The longest password, in characters. Every one takes the same time and memory.
const PASSWORD_CHARS_MAX: usize = 256;

/// How long a session lasts.
pub const SESSION_LIFETIME: Duration = Duration::from_hours(14 * 24);

/// What a browser may call itself, in characters; the rest is cut off.
const CLIENT_CHARS_MAX: usize = 120;

/// An account's number. Never used again after the account is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(i64);

/// An account's name: a user name or an e-mail address. Two that differ in the case of letters alone
/// are the same.
#[derive(Debug, Clone)]
pub struct AccountName(String);

/// A text is no name of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "take the account's name: {NAME_CHARS_MIN} to {NAME_CHARS_MAX} letters, digits and . _ - + @, \
     beginning with a letter or digit"
)]
pub struct AccountNameError;

/// A password. Its `Debug` shows nothing.
#[derive(derive_more::Debug, Clone)]
#[debug("Password(…)")]
pub struct Password(String);

/// A text is no password, or none for a new account. It does not say which text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// It is too short or too long.
    #[error("password must have {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters")]
    Length,
    /// It is among those that guessers try first.
    #[error("password is among the first that guessers try; choose another one")]
    Common,
}

/// Passwords that guessers try first, in lower case, one in each line.
const COMMON_PASSWORDS: &str = include_str!("../../assets/common-passwords.txt");

/// Different characters that a password has at least: `abababab` is not one.
const DIFFERENT_CHARS_MIN: usize = 4;

/// The record of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRecord {
    /// The account's number.
    pub id: AccountId,
    /// Its name, as it was given.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What a browser shows to go on being logged in. Its `Debug` shows nothing.
#[derive(derive_more::Debug, Clone)]
#[debug("SessionToken(…)")]
pub struct SessionToken(String);

/// A session's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId(i64);

/// The record of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// The session's number.
    pub id: SessionId,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// What the browser calls itself.
    pub client: String,
}

/// Whether anyone may sign up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumString, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = SignUpError, parse_err_fn = no_sign_up)]
pub enum SignUp {
    /// Anyone may sign up.
    #[default]
    Open,
    /// Operators alone make accounts.
    Closed,
}

/// A text is neither `open` nor `closed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read whether anyone may sign up: open or closed")]
pub struct SignUpError;

const fn no_sign_up(_: &str) -> SignUpError {
    SignUpError
}

impl AccountId {
    /// The account numbered `number`, which came from [`Self::get`].
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number, for storing and showing.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl SessionId {
    /// The session numbered `number`, which came from [`Self::get`].
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number, for storing and showing.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl AccountName {
    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What two names have in common that are the same.
    pub(crate) fn to_lowercase(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for AccountName {
    type Err = AccountNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "._-+@".contains(letter);
        let is_long_enough = (NAME_CHARS_MIN..=NAME_CHARS_MAX).contains(&text.len());
        let begins = text.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        if is_long_enough && begins && text.chars().all(is_fit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(AccountNameError)
        }
    }
}

impl Password {
    /// The password itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Password {
    type Err = PasswordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let n_chars = text.chars().count();
        if (PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX).contains(&n_chars) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PasswordError::Length)
        }
    }
}

impl Password {
    /// Checks a new password for the account called `name`.
    ///
    /// # Errors
    /// [`PasswordError`]
    pub fn choose(name: &AccountName, text: &str) -> Result<Self, PasswordError> {
        let password: Self = text.parse()?;
        let lower = text.trim().to_lowercase();
        let different: HashSet<char> = lower.chars().collect();
        let is_common = COMMON_PASSWORDS.lines().any(|common| common == lower)
            || different.len() < DIFFERENT_CHARS_MIN
            || lower == name.to_lowercase();
        if is_common { Err(PasswordError::Common) } else { Ok(password) }
    }
}

impl SessionToken {
    /// A token that nobody guesses.
    pub(crate) fn random() -> Self {
        Self(HEXLOWER.encode(&rand::random::<[u8; 32]>()))
    }

    /// The token that a browser shows.
    #[must_use]
    pub fn from_cookie(text: &str) -> Self {
        // One that was never given out hashes to nothing that is known.
        Self(text.to_owned())
    }

    /// The token itself, for the browser.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Its SHA-256, which is what the file has of it.
    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl AccountRecord {
    /// The account as its owner gets to see it.
    #[must_use]
    pub fn body(&self) -> AccountBody {
        let created_at = self.created_at.to_string();
        AccountBody { id: self.id.get(), name: self.name.clone(), created_at }
    }
}

/// What a browser calls itself, without what is no text, and not too long.
pub(crate) fn clean_user_agent(text: &str) -> String {
    text.chars().filter(|letter| !is_unprintable(*letter)).take(CLIENT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_user_name_or_an_address() {
        for fit in ["ada", "Ada.Lovelace+keys@example.org", "0x_-", &"a".repeat(100)] {
            assert!(fit.parse::<AccountName>().is_ok(), "{fit}");
        }
        for unfit in ["", "ab", "a b", "@ada", "<b>ada", "adá", "a\nda", &"a".repeat(101)] {
            assert!(unfit.parse::<AccountName>().is_err(), "{unfit}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let password: Password = "correct horse".parse().unwrap();
        assert_eq!(format!("{password:?}"), "Password(…)");
        assert_eq!(format!("{:?}", SessionToken::random()), "SessionToken(…)");
        let name: AccountName = "ada.lovelace".parse().unwrap();
        let choose = |text: &str| Password::choose(&name, text).map(drop);
        for text in ["password", "Password123", " 12345678 ", "abababab", "Ada.Lovelace"] {
            assert_eq!(choose(text), Err(PasswordError::Common), "{text}");
        }
        assert_eq!(
            (choose("short"), choose("correct horse")),
            (Err(PasswordError::Length), Ok(()))
        );
        assert!("password".parse::<Password>().is_ok(), "an older account may have it");
        assert!("short".parse::<Password>().is_err());
        assert!("é".repeat(256).parse::<Password>().is_ok());
        assert!("é".repeat(257).parse::<Password>().is_err());
    }
}
