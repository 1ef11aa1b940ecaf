//! The key and the contracts for which the inference service signs values, from its flags.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ::inference::network::signer::{Domain, Signer};
use ::inference::server::Consumers;
use anyhow::{Context as _, bail};
use clap::Args;
use model::topic::TopicId;
use task::file::{FileMode, write_new};

/// Consumer contract in the network's public examples, on the test chain that its clients know.
const CONSUMER_DEFAULT: &str = "ethereum-11155111=0x8E45fbef38DaC54e32AfB27AC8cBab30E6818ce6";

/// File of the private key in the services' directory.
const KEY_NAME: &str = "signer.key";

/// Attempts to draw a random key. One in 2¹²⁸ is invalid.
const DRAWS: usize = 3;

/// Flags about signatures.
#[derive(Debug, Args)]
pub(crate) struct SigningFlags {
    /// Sign for this contract on a chain; may be repeated
    #[arg(long = "consumer", value_name = "CHAIN=CONTRACT", default_value = CONSUMER_DEFAULT)]
    consumers: Vec<String>,
    /// Topic whose value is returned as a price, as in BTC/8h=14; may be repeated
    #[arg(long = "price", value_name = "ASSET/AHEAD=TOPIC")]
    prices: Vec<String>,
    /// File with the private key that signs, 64 hexadecimal digits [default: a file in the data
    /// directory, created if missing]
    #[arg(long, env = "TRIPTYCH_SIGNER_KEY", value_name = "FILE")]
    signer_key: Option<PathBuf>,
}

impl SigningFlags {
    /// Returns the consumers that the flags name. The key is in the services' `folder` by default.
    ///
    /// # Errors
    /// If a flag or the key is invalid.
    pub(crate) fn consumers(&self, folder: &Path) -> anyhow::Result<Consumers> {
        let signer = match &self.signer_key {
            Some(path) => read_key(path)?,
            None => load_or_create_key(&folder.join(KEY_NAME))?,
        };
        let chains =
            self.consumers.iter().map(|text| parse_consumer(text)).collect::<Result<_, _>>()?;
        let prices = self.prices.iter().map(|text| parse_price(text)).collect::<Result<_, _>>()?;
        Ok(Consumers { signer, chains, prices })
    }
}

fn read_key(path: &Path) -> anyhow::Result<Signer> {
    let path_text = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read key {path_text}"))?;
    text.parse().with_context(|| format!("invalid key {path_text}"))
}

/// Returns the key in the file at `path`, which is created if it is missing. Only its owner can
/// read it.
fn load_or_create_key(path: &Path) -> anyhow::Result<Signer> {
    if path.exists() {
        return read_key(path);
    }
    let signer = (0..DRAWS).find_map(|_| Signer::random()).context("no valid random key")?;
    let text = format!("{}\n", signer.reveal());
    match write_new(path, text.as_bytes(), FileMode::Private) {
        Ok(()) => Ok(signer),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read_key(path),
        Err(error) => Err(error).with_context(|| format!("cannot create key {}", path.display())),
    }
}

fn parse_consumer(text: &str) -> anyhow::Result<(String, Domain)> {
    let named = text.split_once('=').and_then(|(name, contract)| {
        let id = name.rsplit_once('-')?.1.parse().ok()?;
        Some((name, id, contract))
    });
    let Some((name, chain_id, contract)) = named else {
        bail!(
            "invalid --consumer {text}, expected CHAIN=CONTRACT with a chain whose name ends in its number"
        )
    };
    let contract = contract.parse().with_context(|| format!("invalid --consumer {text}"))?;
    Ok((name.to_owned(), Domain { chain_id, contract }))
}

fn parse_price(text: &str) -> anyhow::Result<(String, TopicId)> {
    let Some((name, topic)) = text.split_once('=').filter(|(name, _)| name.contains('/')) else {
        bail!("invalid --price {text}, expected ASSET/AHEAD=TOPIC, such as BTC/8h=14")
    };
    Ok((name.to_owned(), topic.parse().with_context(|| format!("invalid --price {text}"))?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn consumer_flag_has_a_chain_number_and_a_contract() {
        let prices: BTreeMap<_, _> = [parse_price("BTC/8h=14").unwrap()].into();
        assert_eq!(prices["BTC/8h"].get(), 14);
        let (name, domain) = parse_consumer(CONSUMER_DEFAULT).unwrap();
        assert_eq!((name.as_str(), domain.chain_id), ("ethereum-11155111", 11_155_111));
        for text in ["", "ethereum", "ethereum-x=0x8E45", "ethereum-1=0x8E45"] {
            assert!(parse_consumer(text).is_err(), "{text}");
        }
        assert!(parse_price("BTC=14").is_err() && parse_price("BTC/8h=0").is_err());
    }

    #[test]
    fn key_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_NAME);
        let account = load_or_create_key(&path).unwrap().account();
        assert_eq!(load_or_create_key(&path).unwrap().account(), account);
        fs::write(&path, "no key").unwrap();
        assert!(load_or_create_key(&path).is_err());
    }

    /// Concurrent readers never see a partial key.
    #[test]
    fn key_is_created_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_NAME);
        let whole = load_or_create_key(&path).unwrap().reveal().trim().len();
        fs::remove_file(&path).unwrap();
        let is_watched = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while is_watched.load(std::sync::atomic::Ordering::Relaxed) {
                    if let Ok(text) = fs::read_to_string(&path) {
                        assert_eq!(text.trim().len(), whole);
                    }
                }
            });
            for _ in 0..200 {
                load_or_create_key(&path).unwrap();
                fs::remove_file(&path).unwrap();
            }
            is_watched.store(false, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
