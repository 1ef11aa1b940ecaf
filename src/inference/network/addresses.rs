//! Addresses of actors, `allo1…`: bech32 of 20 bytes, as on the chain.
//!
//! The address of a node is the hash of its public key, as the chain's software computes it for that
//! kind of key. API keys have no public key, so the address of an API key is a hash of its id. The
//! addresses of built-in forecasters, datasets and models are hashes of their names. Without a key
//! pair, these addresses cannot sign anything on the chain. A different prefix for each kind keeps the
//! hashed texts distinct.

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, Hrp};
use model::node::PeerId;
use model::topic::Address;
use ripemd::{Digest as _, Ripemd160};
use sha2::{Digest as _, Sha256};

/// Prefix of all addresses, as on the chain.
const PREFIX: &str = "allo";

/// Number of bytes of a hash in an address, as on the chain.
const ADDRESS_BYTES: usize = 20;

/// Start of the id of a node with an Ed25519 key. The first two bytes are the head of an identity
/// multihash of 36 bytes. These 36 bytes are a protobuf message with the kind of the key in field 1 and
/// the key in field 2.
const ED25519: &[u8] = &[0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// Start of the id of a node with a compressed secp256k1 key, in the same format as [`ED25519`].
const SECP256K1: &[u8] = &[0x00, 0x25, 0x08, 0x02, 0x12, 0x21];

/// Start of the id of a node with a longer public key: the head of a multihash with the SHA-256 of the
/// key.
const SHA256: &[u8] = &[0x12, 0x20];

/// Returns the address of the cluster's worker `peer`. The address is a hash of the public key in the
/// peer's id: RIPEMD-160 of SHA-256 for a secp256k1 key, and the first 20 bytes of SHA-256 for an
/// Ed25519 key. For other keys, the id contains only the key's SHA-256, and the address is the first 20
/// bytes of that. If `peer` is not a valid id, the text itself is hashed.
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
/// of the text `forecaster:name`.
pub fn of_forecaster(name: &str) -> Address {
    of_text(&format!("forecaster:{name}"))
}

/// Returns the address of the reputer for the dataset `name`, computed from the text `reputer:name`.
pub fn of_reputer(name: &str) -> Address {
    of_text(&format!("reputer:{name}"))
}

/// Returns the address of the API key with the id `key`, computed from the text `key:id`, or from
/// `key:id/model` if the key submits for a model. The address does not change if the key is renewed.
pub fn of_key(key: i64, model: Option<&str>) -> Address {
    match model {
        Some(model) => of_text(&format!("key:{key}/{model}")),
        None => of_text(&format!("key:{key}")),
    }
}

/// Returns the address of the model `name` of a predictor or a backtest, computed from the text
/// `model:name`.
pub fn of_model(name: &str) -> Address {
    of_text(&format!("model:{name}"))
}

/// Error for a text that is not an address of this chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an address: expected `allo1` and 38 letters and digits with a valid checksum"
)]
pub struct UnknownAddressError {
    /// Beginning of the text that is not an address.
    text: String,
}

/// Parses an address and verifies its checksum.
///
/// # Errors
/// [`UnknownAddressError`] if `text` is not a valid address of this chain.
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
    fn node_has_the_address_of_its_public_key() {
        // The public key is the generator of the curve, for which wallets of the chain compute the same
        // address.
        let generator = "16Uiu2HAm3cuhhRL2msUuLF62KRSfneFDx94RsuouyW25Ho42cFMq";
        check(generator, "751e76e8199196d454941c45d1b3a323f1433bd6");
        let address = of_peer(&generator.parse().unwrap());
        assert_eq!(address.as_str(), "allo1w508d6qejxtdg4y5r3zarvary0c5xw7k5wdecp");
        // The public key is the first of the test vectors in RFC 8032.
        check(
            "12D3KooWQK1wnefoLrcVHbbnf5tLzbopUd3K3bFAoJpA7YJgL5pV",
            "21fe31dfa154a261626bf854046fd2271b7bed4b",
        );
        let long_key = "QmRL8UmJRkvVWsFd8dytFLrrK3Ftr178hzMpYtPNP4WBnr";
        check(long_key, "2c70e12b7a0646f92279f427c7b38e7334d8e538");
    }

    #[test]
    fn address_of_an_actor_without_a_public_key_is_the_hash_of_its_name() {
        let of = of_key(7, Some("drift"));
        let (_, bytes) = bech32::decode(of.as_str()).unwrap();
        assert_eq!(bytes, Sha256::digest("key:7/drift")[..20]);
        assert_ne!(of, of_key(7, None));
        let peer: PeerId = "12D3KooWRvAp9GerdS".parse().unwrap();
        assert_ne!(of_peer(&peer), of_forecaster("12D3KooWRvAp9GerdS"));
    }
}
