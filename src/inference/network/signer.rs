//! Signatures of inferences for consumer contracts.
//!
//! The chain's public consumer contract defines the format. The contract computes the EIP-712 hash of an
//! inference, wraps this hash like a message signed by a wallet, and recovers the signer. Amounts are
//! integers in units of 10⁻¹⁸.

use std::fmt;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use k256::ecdsa::{SigningKey, VerifyingKey};
use model::topic::decimal;
use num_bigint::BigUint;
use sha3::{Digest as _, Keccak256};

/// EIP-712 type of an inference in the contract.
const INFERENCE_TYPE: &str = "NetworkInferenceData(uint256 networkInference,uint256 timestamp,\
                              uint256 topicId,bytes extraData,\
                              uint256[] confidenceIntervalPercentiles,\
                              uint256[] confidenceIntervalValues)";

/// Size of a word in the contract's encoding, in bytes.
const WORD: u64 = 32;

type Hash = [u8; 32];

/// Address of an account or contract on an EVM chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account([u8; 20]);

/// Error for an invalid account or key, or of signing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// The text of an account is not `0x` and 40 hexadecimal digits.
    #[error(
        "address must be 0x and 40 hexadecimal digits, such as 0x8E45fbef38DaC54e32AfB27AC8cBab30E6818ce6"
    )]
    Account,
    /// The text of a private key does not have 64 hexadecimal digits, or is one of the few values that
    /// are not keys.
    #[error("private key must have 64 hexadecimal digits")]
    Key,
    /// Signing failed, which does not happen for a hash of fixed length.
    #[error("signing failed")]
    Sign,
}

/// Contract that verifies the signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain {
    /// Id of the chain.
    pub chain_id: u64,
    /// Address of the contract.
    pub contract: Account,
}

/// An inference in the form that the contract verifies. The field `extraData` is always empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedInference {
    /// Combined value of the latest epoch.
    pub network_inference: Amount,
    /// Time of the inference, in seconds since 1970.
    pub timestamp: u64,
    /// Id of the topic.
    pub topic_id: u64,
    /// Percentiles of the confidence interval.
    pub percentiles: Vec<Amount>,
    /// Values at the percentiles.
    pub values: Vec<Amount>,
}

/// A signing key. `Debug` prints only its account.
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
        // Requires all 64 digits, since otherwise a truncated key would be accepted as a key with
        // leading zeros.
        let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| SignerError::Key)?;
        Self::from_bytes(&bytes).ok_or(SignerError::Key)
    }
}

impl Signer {
    /// Creates a signer with the private key `bytes`. Returns `None` for the few values that are not
    /// private keys.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        SigningKey::from_slice(bytes).ok().map(|key| Self { key })
    }

    /// Creates a signer with a random key. Returns `None` with a probability of about 2⁻¹²⁸, if the
    /// random value is not a private key.
    pub fn random() -> Option<Self> {
        Self::from_bytes(&rand::random())
    }

    /// Returns the private key as 64 hexadecimal digits.
    pub fn reveal(&self) -> String {
        HEXLOWER.encode(&self.key.to_bytes())
    }

    /// Returns the account of this signer, which the contract recovers from its signatures.
    pub fn account(&self) -> Account {
        account_of(self.key.verifying_key())
    }

    /// Signs `inference` for the contract `domain`. Returns the signature as `0x` and 130 hexadecimal
    /// digits.
    ///
    /// # Errors
    /// [`SignerError::Sign`], which does not occur in practice.
    pub fn sign(&self, domain: Domain, inference: &SignedInference) -> Result<String, SignerError> {
        let hash = wallet_hash(message(domain, inference));
        let signed = self.key.sign_prehash_recoverable(&hash).map_err(|_| SignerError::Sign)?;
        let (signature, recovery) = signed;
        // By convention, the recovery id of a signature for EVM contracts is 27 or 28.
        Ok(format!("0x{}{:02x}", HEXLOWER.encode(&signature.to_bytes()), 27 + recovery.to_byte()))
    }
}

/// Returns the EIP-712 hash of `inference`, as the contract computes it.
fn message(domain: Domain, inference: &SignedInference) -> Hash {
    let domain_type: &[u8] =
        b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)";
    // `AlloraConsumer` and `1` are the name and version of the contract.
    let separator = keccak(&[
        &keccak(&[domain_type]),
        &keccak(&[b"AlloraConsumer"]),
        &keccak(&[b"1"]),
        &word(domain.chain_id),
        &[0; 12],
        &domain.contract.0,
    ]);
    // The encoding begins with seven words. These words include the offsets of three lists, which follow
    // the words.
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
        // Length of the empty extra data.
        &word(0),
        &percentiles,
        &values,
    ]);
    keccak(&[b"\x19\x01", &separator, &data])
}

/// Returns the hash that a wallet signs for `message`.
fn wallet_hash(message: Hash) -> Hash {
    keccak(&[b"\x19Ethereum Signed Message:\n32", &message])
}

/// Encodes a list of amounts: its length, then each amount.
fn list(amounts: &[Amount]) -> Vec<u8> {
    let n_amounts = u64::try_from(amounts.len()).unwrap_or(u64::MAX);
    let mut bytes = word(n_amounts).to_vec();
    for amount in amounts {
        bytes.extend_from_slice(&amount.bytes());
    }
    bytes
}

/// Encodes a number as a big-endian word.
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
    // Skips the first byte, which is the format of the point.
    let hash = keccak(&[point.as_bytes().get(1..).unwrap_or_default()]);
    Account(hash.last_chunk().copied().unwrap_or_default())
}

/// Number of decimals of an amount.
pub const DECIMALS: usize = 18;

/// Error for a number that is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// The number is infinite or not a number.
    #[error("not a decimal number")]
    NotDecimal,
    /// The number is negative.
    #[error("{0} is negative, which contracts cannot represent")]
    Negative(String),
    /// The amount does not fit in the contract's numbers.
    #[error("number exceeds 256 bits")]
    TooLarge,
}

/// A 256-bit number in units of 10⁻¹⁸.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
pub struct Amount(BigUint);

impl Amount {
    /// Creates the amount of `number`, from the shortest decimal text that parses as the number. Decimals
    /// after [`DECIMALS`] are cut off.
    ///
    /// # Errors
    /// [`AmountError`] with the reason.
    pub fn new(number: f64) -> Result<Self, AmountError> {
        let text = decimal(number);
        if number < 0.0 {
            return Err(AmountError::Negative(text));
        }
        let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
        let digits = format!("{whole}{part:0<DECIMALS$.DECIMALS$}");
        let amount: BigUint = digits.parse().map_err(|_| AmountError::NotDecimal)?;
        if amount.bits() > 256 { Err(AmountError::TooLarge) } else { Ok(Self(amount)) }
    }

    /// Returns the number as 32 bytes in big-endian order.
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
