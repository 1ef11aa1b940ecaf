//! Signatures verified with a second implementation, and two recorded signatures that the public
//! contract accepted.

use libsecp256k1::{Message, RecoveryId, Signature, recover};

use super::*;

/// Public contract on the test chain Sepolia that accepted the recorded signatures.
const SEPOLIA: &str = "0x8E45fbef38DaC54e32AfB27AC8cBab30E6818ce6";

fn domain() -> Domain {
    Domain { chain_id: 11_155_111, contract: SEPOLIA.parse().unwrap() }
}

fn amounts(numbers: &[f64]) -> Vec<Amount> {
    numbers.iter().map(|number| Amount::new(*number).unwrap()).collect()
}

fn inference(timestamp: u64) -> SignedInference {
    SignedInference {
        network_inference: Amount::new(3_365.485_208_027_959).unwrap(),
        timestamp,
        topic_id: 9,
        percentiles: amounts(&[2.28, 15.87, 50.0, 84.13, 97.72]),
        values: amounts(&[
            3_016.256_807_053_656,
            3_029.849_059_956_295,
            3_049.738_780_726_754,
            3_148.682_039_955_208_4,
            3_278.333_171_848_616_5,
        ]),
    }
}

/// Recovers the account from `signature` with the second implementation.
fn recovered(domain: Domain, inference: &SignedInference, signature: &str) -> Account {
    let bytes = HEXLOWER.decode(signature.strip_prefix("0x").unwrap().as_bytes()).unwrap();
    assert_eq!(bytes.len(), 65);
    let hash = Message::parse(&wallet_hash(message(domain, inference)));
    let recovery = RecoveryId::parse(bytes[64] - 27).unwrap();
    let parsed = Signature::parse_standard_slice(&bytes[..64]).unwrap();
    let key = recover(&hash, &parsed, &recovery).unwrap();
    Account(*keccak(&[&key.serialize()[1..]]).last_chunk().unwrap())
}

#[test]
fn recorded_signatures_recover_the_same_signer() {
    let first = "0x6a53bbb80598dc2b580263221db161c7ea2e90d93047f727870a062553314859\
                 149c1281aa1c7070b3ef9ff28f335a175e972f45374e6c729f57414ff2dbe43b1b";
    let second = "0x99b8b75f875a9ecc09fc499073656407458d464edeceb384686dba990ed785d8\
                  41e6510b578d253a6e19a20503d1ec1e3c38b4c60980ff3b4df9ce3335ebd3851b";
    // The two recorded inferences have no confidence interval.
    let of = |timestamp, signature| {
        let signed =
            SignedInference { percentiles: Vec::new(), values: Vec::new(), ..inference(timestamp) };
        recovered(domain(), &signed, signature)
    };
    let signer = of(1_719_866_147, first);
    assert_eq!(signer.to_string(), "0xb5fa133810c3d6074b43659bf18011a937c7380f");
    // Both signatures are from one account. If our hash were wrong, two different accounts would be
    // recovered.
    assert_eq!(signer, of(1_719_866_777, second));
    assert_ne!(signer, of(1_719_866_778, second));
}

#[test]
fn signer_is_recovered_by_another_implementation() {
    let signer: Signer =
        "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318".parse().unwrap();
    // The documentation of a well-known wallet library has this account for the key.
    assert_eq!(signer.account().to_string(), "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23");
    for timestamp in 0..20 {
        let signature = signer.sign(domain(), &inference(timestamp)).unwrap();
        assert_eq!(recovered(domain(), &inference(timestamp), &signature), signer.account());
    }
    let elsewhere = Domain { chain_id: 42_161, ..domain() };
    let signature = signer.sign(elsewhere, &inference(1)).unwrap();
    assert_ne!(recovered(domain(), &inference(1), &signature), signer.account());
}

#[test]
fn keys_and_accounts_are_parsed_and_debug_output_hides_keys() {
    let signer = Signer::from_bytes(&[7; 32]).unwrap();
    let again: Signer = signer.reveal().parse().unwrap();
    assert_eq!(again.account(), signer.account());
    assert!(!format!("{signer:?}").contains("0707"));
    assert_eq!(SEPOLIA.parse::<Account>().unwrap().to_string(), SEPOLIA.to_lowercase());
    for text in ["", "0x", "0x8E45", "8E45fbef38DaC54e32AfB27AC8cBab30E6818ce6", "0xg"] {
        assert_eq!(text.parse::<Account>(), Err(SignerError::Account), "{text}");
    }
    assert!(matches!("00".repeat(32).parse::<Signer>(), Err(SignerError::Key)));
}

#[test]
fn amounts_have_eighteen_decimals() {
    for (number, want) in [
        (3_365.485_208_027_959, "3365485208027959000000"),
        (-0.0, "0"),
        (2.28, "2280000000000000000"),
        (30.0, "30000000000000000000"),
        (1e-18, "1"),
        (1.9e-18, "1"),
        (1e-300, "0"),
        (1e20, "100000000000000000000000000000000000000"),
    ] {
        assert_eq!(Amount::new(number).map(|amount| amount.to_string()), Ok(want.to_owned()));
    }
}

#[test]
fn numbers_that_contracts_cannot_represent_are_rejected() {
    for (number, want) in [
        (-1.5, "-1.5 is negative, which contracts cannot represent"),
        (1.2e59, "number exceeds 256 bits"),
        (f64::MAX, "number exceeds 256 bits"),
        (f64::NAN, "not a decimal number"),
        (f64::INFINITY, "not a decimal number"),
    ] {
        assert_eq!(Amount::new(number).unwrap_err().to_string(), want);
    }
    assert_eq!(
        Amount::new(1.1e59).unwrap().bytes()[0] >> 7,
        1,
        "the largest amounts have 256 bits"
    );
}
