//! For whom the inference service signs, and by whom, from its flags.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use ::inference::{
    network::signer::{Domain, Signer},
    server::Consumers,
};
use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use model::topic::TopicId;
use task::file::{FileMode, write_new};

/// The consumer contract that the network's public examples name, on the test chain that its
/// clients know.
const CONSUMER_DEFAULT: &str = "ethereum-11155111=0x8E45fbef38DaC54e32AfB27AC8cBab30E6818ce6";

/// The private key's file in the services' folder.
const KEY_NAME: &str = "signer.key";

/// How often a random key is drawn that is none. One in 2¹²⁸ is.
const DRAWS: usize = 3;

/// The flags about signatures.
#[derive(Debug, Args)]
pub(crate) struct SigningFlags {
    /// Sign for the contract on a chain; may be repeated
    #[arg(long = "consumer", value_name = "CHAIN=CONTRACT", default_value = CONSUMER_DEFAULT)]
    consumers: Vec<String>,
    /// Answer a price with a topic, as in BTC/8h=14; may be repeated
    #[arg(long = "price", value_name = "ASSET/AHEAD=TOPIC")]
    prices: Vec<String>,
    /// The private key that signs, 64 hexadecimal digits in a file [default: one made in the data
    /// folder]
    #[arg(long, env = "TRIPTYCH_SIGNER_KEY", value_name = "FILE")]
    signer_key: Option<PathBuf>,
}

impl SigningFlags {
    /// What the flags say, with the services' `folder` for the key.
    ///
    /// # Errors
    /// If a flag or the key is unfit.
    pub(crate) fn consumers(&self, folder: &Path) -> anyhow::Result<Consumers> {
        let signer = match &self.signer_key {
            Some(path) => read(path)?,
            None => load_signer(&folder.join(KEY_NAME))?,
        };
        let chains = self.consumers.iter().map(|text| chain(text)).collect::<Result<_, _>>()?;
        let prices = self.prices.iter().map(|text| price(text)).collect::<Result<_, _>>()?;
        Ok(Consumers { signer, chains, prices })
    }
}

fn read(path: &Path) -> anyhow::Result<Signer> {
    let text =
        fs::read_to_string(path).with_context(|| format!("read the key {}", path.display()))?;
    text.parse().with_context(|| format!("use the key {}", path.display()))
}

/// The key in the file at `path`, made now if there is none. Only its owner may read it.
fn load_signer(path: &Path) -> anyhow::Result<Signer> {
    let what = || format!("make the key {}", path.display());
    if path.exists() {
        return read(path);
    }
    let drawn = (0..DRAWS).find_map(|_| Signer::random());
    let signer = drawn.ok_or_else(|| anyhow!("draw a key")).with_context(what)?;
    let text = format!("{}\n", signer.reveal());
    match write_new(path, text.as_bytes(), FileMode::Private) {
        Ok(()) => Ok(signer),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(error).with_context(what),
    }
}

fn chain(text: &str) -> anyhow::Result<(String, Domain)> {
    let named = text.split_once('=').and_then(|(name, contract)| {
        let id = name.rsplit_once('-')?.1.parse().ok()?;
        Some((name, id, contract))
    });
    let Some((name, chain_id, contract)) = named else {
        bail!("use --consumer {text}: it is a chain's name, which ends in its number, = a contract")
    };
    let contract = contract.parse().with_context(|| format!("use --consumer {text}"))?;
    Ok((name.to_owned(), Domain { chain_id, contract }))
}

fn price(text: &str) -> anyhow::Result<(String, TopicId)> {
    let Some((name, topic)) = text.split_once('=').filter(|(name, _)| name.contains('/')) else {
        bail!("use --price {text}: it is such as BTC/8h=14")
    };
    Ok((name.to_owned(), topic.parse().with_context(|| format!("use --price {text}"))?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_chain_is_named_with_its_number_and_its_contract() {
        let prices: BTreeMap<_, _> = [price("BTC/8h=14").unwrap()].into();
        assert_eq!(prices["BTC/8h"].get(), 14);
        let (name, domain) = chain(CONSUMER_DEFAULT).unwrap();
        assert_eq!((name.as_str(), domain.chain_id), ("ethereum-11155111", 11_155_111));
        for text in ["", "ethereum", "ethereum-x=0x8E45", "ethereum-1=0x8E45"] {
            assert!(chain(text).is_err(), "{text}");
        }
        assert!(price("BTC=14").is_err() && price("BTC/8h=0").is_err());
    }

    #[test]
    fn a_key_is_made_once_and_then_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_NAME);
        let account = load_signer(&path).unwrap().account();
        assert_eq!(load_signer(&path).unwrap().account(), account);
        fs::write(&path, "no key").unwrap();
        assert!(load_signer(&path).is_err());
    }

    /// Many at once agree on one key, and none of them ever sees a part of it.
    #[test]
    fn of_many_that_make_the_key_at_once_one_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_NAME);
        let whole = load_signer(&path).unwrap().reveal().trim().len();
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
                load_signer(&path).unwrap();
                fs::remove_file(&path).unwrap();
            }
            is_watched.store(false, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
