//! Password hashing. Hashing is slow by design, so it runs on blocking threads with bounded concurrency.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use argon2::password_hash::{
    self, PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString,
};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::account::Password;
use crate::{AccountsError, blocking};

/// Memory used by a hash, in KiB. Together with [`ROUNDS`] and [`LANES`], this is the minimum that OWASP
/// recommends for argon2id. Computing a hash takes about 20 ms.
const MEMORY_KIB: u32 = 19 * 1024;

/// Number of passes over the memory of a hash.
const ROUNDS: u32 = 2;

/// Number of threads per hash.
const LANES: u32 = 1;

/// Maximum number of hashes that are computed concurrently. Four hashes need 76 MiB.
const AT_ONCE_MAX: usize = 4;

/// Maximum time for which a hash waits for a permit. Hundreds of hashes are computed in this time.
/// Further requests are refused and can be retried.
const TURN_WITHIN: Duration = Duration::from_secs(5);

/// Password hasher. Cheap to clone: all clones share the permits.
#[derive(Debug, Clone)]
pub(crate) struct Passwords {
    turns: Arc<Semaphore>,
}

impl Passwords {
    pub(crate) fn new() -> Self {
        let n_cores = available_parallelism().map_or(1, usize::from);
        Self { turns: Arc::new(Semaphore::new(n_cores.clamp(1, AT_ONCE_MAX))) }
    }

    /// Returns the hash of `password` with a new salt, as a PHC string that includes the parameters.
    pub(crate) async fn hash(&self, password: Password) -> Result<String, AccountsError> {
        self.run_in_turn(move || {
            let salt = SaltString::encode_b64(&rand::random::<[u8; 16]>())?;
            Ok(hasher()?.hash_password(password.reveal().as_bytes(), &salt)?.to_string())
        })
        .await
    }

    /// Returns true if `hash` is a hash of `password`. If `hash` is `None`, returns false after the
    /// same time, so that response times do not reveal which accounts exist.
    pub(crate) async fn matches(
        &self,
        password: Password,
        hash: Option<String>,
    ) -> Result<bool, AccountsError> {
        let Some(hash) = hash else { return self.hash(password).await.map(|_| false) };
        self.run_in_turn(move || {
            let hash = PasswordHash::new(&hash)?;
            // `verify_password` compares hashes in constant time.
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
        // Cannot fail, since the semaphore is never closed.
        let turn = turn.await.map_err(|_| AccountsError::Busy)?.map_err(|_| AccountsError::Busy)?;
        blocking(move || {
            // Holds the permit until the hash is computed, even if the caller has stopped waiting.
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
    async fn only_the_hashed_password_is_accepted() {
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
