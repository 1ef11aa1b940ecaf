//! Addresses of actors.

use bech32::{Bech32, Hrp};
use model::{node::PeerId, topic::Address};
use sha2::{Digest as _, Sha256};

/// What every address begins with, by document 3.
const PREFIX: &str = "allo";

/// How much of a hash an address holds, in bytes: as much as any address of the chain.
const ADDRESS_BYTES: usize = 20;

/// No address could be made. The prefix and the length are fixed, so this does not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("make an address")]
pub struct AddressError;

/// Returns the address of the cluster's worker `peer`: bech32 of the first 20 bytes of the SHA-256
/// of its peer id's text.
///
/// # Errors
/// [`AddressError`], never in practice.
pub fn of_peer(peer: &PeerId) -> Result<Address, AddressError> {
    of_text(peer.as_str())
}

/// Returns the address of the built-in forecaster `name`, made likewise from `forecaster:name`,
/// which is no peer id.
///
/// # Errors
/// [`AddressError`], never in practice.
pub fn of_forecaster(name: &str) -> Result<Address, AddressError> {
    of_text(&format!("forecaster:{name}"))
}

/// Returns the address under which the dataset `name` reports losses, made likewise from
/// `reputer:name`.
///
/// # Errors
/// [`AddressError`], never in practice.
pub fn of_reputer(name: &str) -> Result<Address, AddressError> {
    of_text(&format!("reputer:{name}"))
}

/// Returns the address of who holds the API key number `key` of the accounts at this service, made
/// likewise from `key:number`, or from `key:number/model` for one of its models. A key's secret may
/// change; its number does not.
///
/// # Errors
/// [`AddressError`], never in practice.
pub fn of_key(key: i64, model: Option<&str>) -> Result<Address, AddressError> {
    match model {
        Some(model) => of_text(&format!("key:{key}/{model}")),
        None => of_text(&format!("key:{key}")),
    }
}

/// Returns the address of the model `name` of a backtest, made likewise from `model:name`.
///
/// # Errors
/// [`AddressError`], never in practice.
pub fn of_model(name: &str) -> Result<Address, AddressError> {
    of_text(&format!("model:{name}"))
}

fn of_text(text: &str) -> Result<Address, AddressError> {
    let hash = Sha256::digest(text.as_bytes());
    let bytes = hash.get(..ADDRESS_BYTES).ok_or(AddressError)?;
    let prefix = Hrp::parse(PREFIX).map_err(|_| AddressError)?;
    let text = bech32::encode::<Bech32>(prefix, bytes).map_err(|_| AddressError)?;
    text.parse().map_err(|_| AddressError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_bech32_of_twenty_bytes() {
        let peer: PeerId = "12D3KooWRvAp9GerdS".parse().unwrap();
        let address = of_peer(&peer).unwrap();
        let (prefix, bytes) = bech32::decode(address.as_str()).unwrap();
        assert_eq!((prefix.as_str(), bytes.len()), ("allo", 20));
        assert_eq!(bytes, Sha256::digest("12D3KooWRvAp9GerdS")[..20]);
        assert_ne!(address, of_forecaster("12D3KooWRvAp9GerdS").unwrap());
    }
}
