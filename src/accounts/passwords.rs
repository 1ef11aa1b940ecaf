//! Hashes passwords: slow by design, on blocking threads, a bounded number at a time.

use std::{sync::Arc, thread::available_parallelism, time::Duration};

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{self, PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString},
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{AccountsError, account::Password, blocking};

/// Memory that a hash takes, in kibibytes: with [`ROUNDS`] and [`LANES`] the least that OWASP's
/// recommendations name for argon2id. It takes some 20 ms.
const MEMORY_KIB: u32 = 19 * 1024;

/// How often a hash goes over its memory.
const ROUNDS: u32 = 2;

/// Threads of one hash.
const LANES: u32 = 1;

/// The most hashes at a time, on however large a machine: 76 MiB.
const AT_ONCE_MAX: usize = 4;

/// How long a hash may wait for its turn. Some hundred are done in that time; further ones are refused
/// and may retry.
const TURN_WITHIN: Duration = Duration::from_secs(5);

/// Hashes passwords. Cheap to clone; all clones take turns.
#[derive(Debug, Clone)]
pub(crate) struct Passwords {
    turns: Arc<Semaphore>,
}

impl Passwords {
    pub(crate) fn new() -> Self {
        let n_cores = available_parallelism().map_or(1, usize::from);
        Self { turns: Arc::new(Semaphore::new(n_cores.clamp(1, AT_ONCE_MAX))) }
    }

    /// The hash of `password` with its parameters and a new salt, in the usual text form.
    pub(crate) async fn hash(&self, password: Password) -> Result<String, AccountsError> {
        self.run_in_turn(move || {
            let salt = SaltString::encode_b64(&rand::random::<[u8; 16]>())?;
            Ok(hasher()?.hash_password(password.reveal().as_bytes(), &salt)?.to_string())
        })
        .await
    }

    /// Whether `password` is the one that `hash` was made of. It takes as long where there is no
    /// hash, so that nobody learns by the time which accounts exist.
    pub(crate) async fn matches(
        &self,
        password: Password,
        hash: Option<String>,
    ) -> Result<bool, AccountsError> {
        let Some(hash) = hash else { return self.hash(password).await.map(|_| false) };
        self.run_in_turn(move || {
            let hash = PasswordHash::new(&hash)?;
            // The comparison takes the same time wherever the two differ.
            match hasher()?.verify_password(password.reveal().as_bytes(), &hash) {
                Ok(()) => Ok(true),
                Err(password_hash::Error::Password) => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn run_in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, password_hash::Error> + Send + 'static,
    ) -> Result<T, AccountsError> {
        let turn = timeout(TURN_WITHIN, Arc::clone(&self.turns).acquire_owned());
        // The semaphore is never closed.
        let turn = turn.await.map_err(|_| AccountsError::Busy)?.map_err(|_| AccountsError::Busy)?;
        blocking(move || {
            // The turn lasts as long as the work, even where nobody waits for it any more.
            let _turn = turn;
            work().map_err(AccountsError::Hash)
        })
        .await
    }
}

fn hasher() -> Result<Argon2<'static>, password_hash::Error> {
    let params = Params::new(MEMORY_KIB, ROUNDS, LANES, None)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_matches_its_own_hash_alone() {
        let passwords = Passwords::new();
        let word = |text: &str| text.parse::<Password>().unwrap();
        let hash = passwords.hash(word("correct horse")).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, passwords.hash(word("correct horse")).await.unwrap(), "the salt differs");
        let matches = async |text, hash| passwords.matches(word(text), hash).await.unwrap();
        assert!(matches("correct horse", Some(hash.clone())).await);
        assert!(!matches("correct house", Some(hash)).await);
        assert!(!matches("correct horse", None).await);
        let broken = passwords.matches(word("correct horse"), Some("nonsense".to_owned())).await;
        assert!(matches!(broken, Err(AccountsError::Hash(_))), "{broken:?}");
    }
}
