//! Addresses of actors, `allo1…`: bech32 of 20 bytes, as on the chain.
//!
//! A node has a key pair, and its address is the hash of its public key that the chain's own
//! software takes for keys of that kind. Nobody else here has one. An API key is a secret that both
//! sides know, so what stands for its holder is a hash of a name, made from the key's number; so do
//! the hashes that stand for built-in forecasters, datasets and models. None of
//! those could sign for the chain, and no two kinds of names are alike.

use bech32::{Bech32, Hrp, primitives::decode::CheckedHrpstring};
use model::{node::PeerId, topic::Address};
use ripemd::{Digest as _, Ripemd160};
use sha2::{Digest as _, Sha256};

/// What every address begins with, by document 3.
const PREFIX: &str = "allo";

/// How much of a hash an address holds, in bytes: as much as any address of the chain.
const ADDRESS_BYTES: usize = 20;

/// How the id of a node begins that holds an Ed25519 public key: a multihash that hashes nothing, of
/// 36 bytes, a message whose field 1 is the kind of the key, and whose field 2 is the key.
const ED25519: &[u8] = &[0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// The same with a secp256k1 public key in its short form.
const SECP256K1: &[u8] = &[0x00, 0x25, 0x08, 0x02, 0x12, 0x21];

/// How the id of a node begins whose public key is too long for it: SHA-256 of the key follows.
const SHA256: &[u8] = &[0x12, 0x20];

/// Returns the address of the cluster's worker `peer`, whose id holds its public key: RIPEMD-160 of
/// SHA-256 of a secp256k1 key, the first 20 bytes of SHA-256 of an Ed25519 key. Of any other kind of
/// key the id holds the SHA-256 alone, whose first 20 bytes are taken. What is no node's id is
/// hashed as a text.
pub fn of_peer(peer: &PeerId) -> Address {
    let id = bs58::decode(peer.as_str()).into_vec().unwrap_or_default();
    let key =
        |prefix, n_bytes| id.strip_prefix(prefix).filter(|rest: &&[u8]| rest.len() == n_bytes);
    if let Some(key) = key(SECP256K1, 33) {
        of_bytes(&Ripemd160::digest(Sha256::digest(key)))
    } else if let Some(key) = key(ED25519, 32) {
        of_bytes(&Sha256::digest(key))
    } else if let Some(hash) = key(SHA256, 32) {
        of_bytes(hash)
    } else {
        of_text(peer.as_str())
    }
}

/// Returns the address of the built-in forecaster `name`: bech32 of the first 20 bytes of the SHA-256
/// of `forecaster:name`.
pub fn of_forecaster(name: &str) -> Address {
    of_text(&format!("forecaster:{name}"))
}

/// Returns the address under which the dataset `name` reports losses, made likewise from
/// `reputer:name`.
pub fn of_reputer(name: &str) -> Address {
    of_text(&format!("reputer:{name}"))
}

/// Returns the address of who holds the API key number `key` of the accounts at this service, made
/// likewise from `key:number`, or from `key:number/model` for one of its models. A key's secret may
/// change; its number does not.
pub fn of_key(key: i64, model: Option<&str>) -> Address {
    match model {
        Some(model) => of_text(&format!("key:{key}/{model}")),
        None => of_text(&format!("key:{key}")),
    }
}

/// Returns the address of the model `name` of a predictor or a backtest, made likewise from
/// `model:name`.
pub fn of_model(name: &str) -> Address {
    of_text(&format!("model:{name}"))
}

/// Why a text is no address of this chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no address: it is `allo1` and 38 letters and digits, the last six of which check the rest"
)]
pub struct UnknownAddressError {
    /// The text, shortened.
    text: String,
}

/// Returns the address that `text` is, with a checksum that fits: not one with a typing error.
///
/// # Errors
/// [`UnknownAddressError`] if it is none.
pub fn checked(text: &str) -> Result<Address, UnknownAddressError> {
    let is_ours = CheckedHrpstring::new::<Bech32>(text).is_ok_and(|address| {
        address.hrp().as_str() == PREFIX && address.byte_iter().len() == ADDRESS_BYTES
    });
    let address = text.parse().ok().filter(|_| is_ours);
    address.ok_or_else(|| UnknownAddressError { text: text.chars().take(96).collect() })
}

fn of_text(text: &str) -> Address {
    of_bytes(&Sha256::digest(text.as_bytes()))
}

#[expect(clippy::expect_used, reason = "the prefix is fixed, and 20 bytes make a short text")]
fn of_bytes(hash: &[u8]) -> Address {
    let bytes = hash.get(..ADDRESS_BYTES).expect("hashes have 20 bytes");
    let text = bech32::encode::<Bech32>(Hrp::parse_unchecked(PREFIX), bytes);
    text.expect("encode 20 bytes").parse().expect("parse an address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(peer: &str, want: &str) {
        let address = of_peer(&peer.parse().unwrap());
        let (prefix, bytes) = bech32::decode(address.as_str()).unwrap();
        let digits: Vec<u32> = want.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
        let want: Vec<u8> =
            digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect();
        assert_eq!((prefix.as_str(), bytes), ("allo", want), "{address}");
    }

    #[test]
    fn a_node_has_the_address_of_its_public_key() {
        // The generator of the curve, whose address the chain's wallets tell likewise.
        let generator = "16Uiu2HAm3cuhhRL2msUuLF62KRSfneFDx94RsuouyW25Ho42cFMq";
        check(generator, "751e76e8199196d454941c45d1b3a323f1433bd6");
        let address = of_peer(&generator.parse().unwrap());
        assert_eq!(address.as_str(), "allo1w508d6qejxtdg4y5r3zarvary0c5xw7k5wdecp");
        // The first key among the test vectors of RFC 8032.
        check(
            "12D3KooWQK1wnefoLrcVHbbnf5tLzbopUd3K3bFAoJpA7YJgL5pV",
            "21fe31dfa154a261626bf854046fd2271b7bed4b",
        );
        let long_key = "QmRL8UmJRkvVWsFd8dytFLrrK3Ftr178hzMpYtPNP4WBnr";
        check(long_key, "2c70e12b7a0646f92279f427c7b38e7334d8e538");
    }

    #[test]
    fn what_has_no_public_key_has_the_hash_of_a_name() {
        let of = of_key(7, Some("drift"));
        let (_, bytes) = bech32::decode(of.as_str()).unwrap();
        assert_eq!(bytes, Sha256::digest("key:7/drift")[..20]);
        assert_ne!(of, of_key(7, None));
        let peer: PeerId = "12D3KooWRvAp9GerdS".parse().unwrap();
        assert_ne!(of_peer(&peer), of_forecaster("12D3KooWRvAp9GerdS"));
    }
}
