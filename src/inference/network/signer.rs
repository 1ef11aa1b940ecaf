//! The signature that the public consumer contract checks.
//!
//! The contract hashes the typed data of an inference, wraps it as wallets wrap a message, and
//! recovers who signed it. Its amounts are whole numbers with 18 decimals.

use std::{fmt, iter::repeat, str::FromStr};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use k256::ecdsa::{SigningKey, VerifyingKey};
use num_bigint::BigUint;
use sha3::{Digest as _, Keccak256};

/// What the contract calls itself.
const CONTRACT_NAME: &str = "AlloraConsumer";

/// The contract's version.
const CONTRACT_VERSION: &str = "1";

/// The type of a domain, as the standard for typed data writes it.
const DOMAIN_TYPE: &str =
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)";

/// The type of an inference, as the contract writes it.
const INFERENCE_TYPE: &str = "NetworkInferenceData(uint256 networkInference,uint256 timestamp,\
                              uint256 topicId,bytes extraData,\
                              uint256[] confidenceIntervalPercentiles,\
                              uint256[] confidenceIntervalValues)";

/// What wallets put before a message of 32 bytes that they sign.
const MESSAGE_PREFIX: &[u8] = b"\x19Ethereum Signed Message:\n32";

/// How many bytes a word of the contract's encoding has.
const WORD: u64 = 32;

type Hash = [u8; 32];

/// The address of an account or a contract of the chains with such contracts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account([u8; 20]);

/// A text is no account, or no private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// Not `0x` and 40 hexadecimal digits.
    #[error("read an address such as 0x8E45fbef38DaC54e32AfB27AC8cBab30E6818ce6")]
    Account,
    /// Not 64 hexadecimal digits, or none that is a key.
    #[error("read a private key of 64 hexadecimal digits")]
    Key,
    /// The signature could not be made. The hash is of fixed length, so this does not happen.
    #[error("sign")]
    Sign,
}

/// Where a signature is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain {
    /// The number of the chain.
    pub chain_id: u64,
    /// The address of the contract that checks.
    pub contract: Account,
}

/// An inference as the contract takes it. Its extra data is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedInference {
    /// The combined value.
    pub network_inference: Amount,
    /// When it was made, in seconds since 1970.
    pub timestamp: u64,
    /// The number of the topic.
    pub topic_id: u64,
    /// The percentiles of the confidence interval.
    pub percentiles: Vec<Amount>,
    /// The value at each.
    pub values: Vec<Amount>,
}

/// Who signs. Its `Debug` shows the address alone.
#[derive(Clone, derive_more::Debug)]
#[debug("Signer({})", self.account())]
pub struct Signer {
    key: SigningKey,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{}", HEXLOWER.encode(&self.0))
    }
}

impl FromStr for Account {
    type Err = SignerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("0x").ok_or(SignerError::Account)?;
        let bytes =
            HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|_| SignerError::Account)?;
        bytes.try_into().map(Self).map_err(|_| SignerError::Account)
    }
}

impl FromStr for Signer {
    type Err = SignerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|_| SignerError::Key)?;
        // A shorter one would be taken for a longer one that begins with zeros.
        let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| SignerError::Key)?;
        Self::from_bytes(&bytes).ok_or(SignerError::Key)
    }
}

impl Signer {
    /// The signer whose private key is `bytes`, unless these are none: all but a few are.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        SigningKey::from_slice(bytes).ok().map(|key| Self { key })
    }

    /// A signer with a random key; none in the one case of 2¹²⁸ in which what was drawn is no key.
    pub fn random() -> Option<Self> {
        Self::from_bytes(&rand::random())
    }

    /// The private key, as 64 hexadecimal digits.
    pub fn reveal(&self) -> String {
        HEXLOWER.encode(&self.key.to_bytes())
    }

    /// The account that the contract finds in the signatures.
    pub fn account(&self) -> Account {
        account_of(self.key.verifying_key())
    }

    /// Signs `inference` for `domain`: `0x` and 65 bytes, as hexadecimal digits.
    ///
    /// # Errors
    /// [`SignerError::Sign`], never in practice.
    pub fn sign(&self, domain: Domain, inference: &SignedInference) -> Result<String, SignerError> {
        let hash = wallet_hash(message(domain, inference));
        let signed = self.key.sign_prehash_recoverable(&hash).map_err(|_| SignerError::Sign)?;
        let (signature, recovery) = signed;
        // 27 and 28 are what contracts of this kind have always called the two.
        Ok(format!("0x{}{:02x}", HEXLOWER.encode(&signature.to_bytes()), 27 + recovery.to_byte()))
    }
}

/// The hash that the contract computes of `inference`.
fn message(domain: Domain, inference: &SignedInference) -> Hash {
    let separator = keccak(&[
        &keccak(&[DOMAIN_TYPE.as_bytes()]),
        &keccak(&[CONTRACT_NAME.as_bytes()]),
        &keccak(&[CONTRACT_VERSION.as_bytes()]),
        &word(domain.chain_id),
        &[0; 12],
        &domain.contract.0,
    ]);
    // Seven words of which the last three say where the lists are that follow.
    let head = 7 * WORD;
    let percentiles = list(&inference.percentiles);
    let values = list(&inference.values);
    let n_bytes = u64::try_from(percentiles.len()).unwrap_or(u64::MAX);
    let data = keccak(&[
        &keccak(&[INFERENCE_TYPE.as_bytes()]),
        &inference.network_inference.bytes(),
        &word(inference.timestamp),
        &word(inference.topic_id),
        &word(head),
        &word(head + WORD),
        &word(head + WORD + n_bytes),
        // The extra data: nothing, of length 0.
        &word(0),
        &percentiles,
        &values,
    ]);
    keccak(&[b"\x19\x01", &separator, &data])
}

/// The hash that a wallet signs for `message`.
fn wallet_hash(message: Hash) -> Hash {
    keccak(&[MESSAGE_PREFIX, &message])
}

/// A list of amounts in the contract's encoding: how many, and each.
fn list(amounts: &[Amount]) -> Vec<u8> {
    let n_amounts = u64::try_from(amounts.len()).unwrap_or(u64::MAX);
    let mut bytes = word(n_amounts).to_vec();
    for amount in amounts {
        bytes.extend_from_slice(&amount.bytes());
    }
    bytes
}

/// A number in the contract's encoding.
fn word(number: u64) -> Hash {
    let mut word = [0; 32];
    if let Some(last) = word.last_chunk_mut() {
        *last = number.to_be_bytes();
    }
    word
}

fn keccak(parts: &[&[u8]]) -> Hash {
    let mut hasher = Keccak256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn account_of(key: &VerifyingKey) -> Account {
    let point = key.to_encoded_point(false);
    // Behind the byte that says how the point is written.
    let hash = keccak(&[point.as_bytes().get(1..).unwrap_or_default()]);
    Account(hash.last_chunk().copied().unwrap_or_default())
}

/// How many of an amount's digits stand behind the point.
pub const DECIMALS: usize = 18;

/// The most digits that are read: those of the largest amount, and as many again behind it.
const DIGITS_MAX: usize = 160;

/// Why a decimal is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AmountError {
    /// Contracts of this kind know no numbers below zero.
    #[error("write {text} as an unsigned integer, since it is negative")]
    Negative {
        /// The text that is no such number.
        text: String,
    },
    /// It has no place in 256 bits.
    #[error("write a number of that size in 256 bits")]
    TooLarge,
    /// It is no decimal.
    #[error("read a decimal number")]
    NoNumber,
}

/// A number of 256 bits, which counts units of 10⁻¹⁸.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
pub struct Amount(BigUint);

impl Amount {
    /// The amount that `text` is, cut after [`DECIMALS`] decimals. Nothing is rounded by way of a
    /// double.
    ///
    /// # Errors
    /// [`AmountError`] says why it is none.
    pub fn of_decimal(text: &str) -> Result<Self, AmountError> {
        let text = text.trim();
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                (mantissa, exponent.parse::<i64>().map_err(|_| AmountError::NoNumber)?)
            }
            None => (text, 0),
        };
        let (is_negative, plain) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, part) = plain.split_once('.').unwrap_or((plain, ""));
        let digits = format!("{whole}{part}");
        let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits || digits.is_empty() || digits.len() > DIGITS_MAX {
            return Err(AmountError::NoNumber);
        }
        if is_negative && digits.bytes().any(|digit| digit != b'0') {
            return Err(AmountError::Negative { text: text.to_owned() });
        }
        let significant = digits.trim_start_matches('0');
        // How many of them stand before the point of the amount.
        let n_before = i64::try_from(whole.len() + DECIMALS).unwrap_or(i64::MAX);
        let n_zeros = i64::try_from(digits.len() - significant.len()).unwrap_or(i64::MAX);
        let n_kept = n_before.saturating_add(exponent).saturating_sub(n_zeros);
        if significant.is_empty() || n_kept <= 0 {
            return Ok(Self(BigUint::ZERO));
        }
        let n_kept = usize::try_from(n_kept).ok().filter(|n_kept| *n_kept <= DIGITS_MAX);
        let n_kept = n_kept.ok_or(AmountError::TooLarge)?;
        let kept: String = significant.chars().chain(repeat('0')).take(n_kept).collect();
        let amount: BigUint = kept.parse().map_err(|_| AmountError::NoNumber)?;
        if amount.bits() > 256 { Err(AmountError::TooLarge) } else { Ok(Self(amount)) }
    }

    /// The number in 32 bytes, most significant byte first.
    pub fn bytes(&self) -> [u8; 32] {
        let bytes = self.0.to_bytes_be();
        let mut word = [0; 32];
        for (place, byte) in word.iter_mut().rev().zip(bytes.iter().rev()) {
            *place = *byte;
        }
        word
    }
}

#[cfg(test)]
mod tests;
