//! The code and message of an execution: why there are too few results, in words for its user.

use model::node::PeerId;

use super::{
    Order, Wanted,
    gather::{Failure, Gathered},
    rollcall::Roster,
};
use crate::message::Code;

/// The most peers named in one message; the rest are counted.
const NAMED_MAX: usize = 8;

/// Says why a roll call found too few, where `listening` are known to be in the group.
pub(super) fn too_few(order: &Order, roster: &Roster, listening: &[PeerId]) -> String {
    let wanted = match order.nodes {
        Wanted::Exactly(n) => counted(n.get(), "node"),
        Wanted::Everyone => "any node".to_owned(),
    };
    let group = match &order.subgroup {
        Some(subgroup) => format!("subgroup {subgroup}"),
        None => "the cluster".to_owned(),
    };
    let within = order.roll_call_within.as_secs_f64();
    let ready: Vec<String> = roster.ready.iter().map(PeerId::to_string).collect();
    let mut message = format!(
        "asked {group} for {wanted}, and {} reported within {within} s{}; {} of it {} connected",
        ready.len(),
        if ready.is_empty() { String::new() } else { format!(" ({})", named(&ready)) },
        counted(listening.len(), "worker"),
        if listening.len() == 1 { "is" } else { "are" },
    );
    if !roster.refused.is_empty() {
        let refused = roster.refused.iter().map(|(peer, reason)| format!("{peer}: {reason}"));
        let refused: Vec<String> = refused.collect();
        message = format!("{message}; refused by {}", named(&refused));
    }
    message
}

/// Returns the code of what was gathered, and what went wrong, if anything did.
pub(super) fn gathered(gathered: &Gathered, threshold: f64) -> (Code, String) {
    let (n_answers, n_failed) = (gathered.answers.len(), gathered.failed.len());
    let n_peers = n_answers + n_failed;
    if n_failed == 0 {
        return (Code::OK, String::new());
    }
    let failures = gathered.failed.iter().chain(&gathered.replaced);
    let failures: Vec<String> =
        failures.map(|(peer, failure)| format!("{peer} {}", told(failure))).collect();
    let message =
        format!("{n_answers} of {} gave a result: {}", counted(n_peers, "node"), named(&failures));
    let code =
        if n_answers == 0 { of_none(gathered) } else { of_some(n_answers, n_peers, threshold) };
    (code, message)
}

/// The code where some answered: whether they are enough.
fn of_some(n_answers: usize, n_peers: usize, threshold: f64) -> Code {
    let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    if count(n_answers) / count(n_peers) < threshold { Code::PARTIAL_CONTENT } else { Code::OK }
}

/// The code where nobody answered: what all of them said, if they said one thing.
fn of_none(gathered: &Gathered) -> Code {
    let mut codes: Vec<Code> = gathered
        .failed
        .values()
        .map(|failure| match failure {
            Failure::Refused(code, _) => code.clone(),
            Failure::Unreached(_) => Code::ERROR,
            Failure::Silent | Failure::Lost => Code::NO_CONTENT,
        })
        .collect();
    codes.sort();
    codes.dedup();
    match codes.as_slice() {
        [code] => code.clone(),
        _ => Code::ERROR,
    }
}

fn told(failure: &Failure) -> String {
    match failure {
        Failure::Unreached(reason) => format!("was not reached ({reason})"),
        Failure::Refused(code, reason) if reason.is_empty() => {
            format!("refused with code {}", code.as_str())
        }
        Failure::Refused(_, reason) => format!("refused ({reason})"),
        Failure::Silent => "did not answer in time".to_owned(),
        Failure::Lost => "was lost".to_owned(),
    }
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn named(all: &[String]) -> String {
    let named: Vec<&str> = all.iter().take(NAMED_MAX).map(String::as_str).collect();
    match all.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        n_more => format!("{}, and {n_more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use model::execution::Outcome;

    use super::*;

    #[track_caller]
    fn check(n_answers: usize, failures: &[Failure], want: (&Code, &str)) {
        let id = |n: usize| -> PeerId { format!("12D3KooWpeer{}", n + 1).parse().unwrap() };
        let gathered = Gathered {
            answers: (0..n_answers).map(|n| (id(n), Outcome::default())).collect(),
            failed: failures
                .iter()
                .enumerate()
                .map(|(n, failure)| (id(n_answers + n), failure.clone()))
                .collect(),
            ..Gathered::default()
        };
        let (code, message) = super::gathered(&gathered, 0.6);
        assert_eq!((&code, message.as_str()), want);
    }

    #[test]
    fn the_code_follows_the_share_that_answered() {
        use Failure::{Lost, Silent, Unreached};
        check(3, &[], (&Code::OK, ""));
        check(2, &[Lost], (&Code::OK, "2 of 3 nodes gave a result: 12D3KooWpeer3 was lost"));
        check(
            1,
            &[Silent],
            (
                &Code::PARTIAL_CONTENT,
                "1 of 2 nodes gave a result: 12D3KooWpeer2 did not answer in time",
            ),
        );
        check(
            0,
            &[Silent],
            (&Code::NO_CONTENT, "0 of 1 node gave a result: 12D3KooWpeer1 did not answer in time"),
        );
        check(
            0,
            &[Unreached("gone".into())],
            (&Code::ERROR, "0 of 1 node gave a result: 12D3KooWpeer1 was not reached (gone)"),
        );
    }

    #[test]
    fn what_all_say_is_the_code() {
        let missing = Failure::Refused(Code::NOT_FOUND, "the function is not here".into());
        let full = Failure::Refused(Code::ERROR, String::new());
        check(
            0,
            std::slice::from_ref(&missing),
            (
                &Code::NOT_FOUND,
                "0 of 1 node gave a result: 12D3KooWpeer1 refused (the function is not here)",
            ),
        );
        check(
            0,
            &[missing, full],
            (
                &Code::ERROR,
                "0 of 2 nodes gave a result: 12D3KooWpeer1 refused (the function is not here), \
                 12D3KooWpeer2 refused with code 500",
            ),
        );
    }
}
