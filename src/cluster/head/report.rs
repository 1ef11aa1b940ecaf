//! Code and message of an execution's outcome. The message tells the user why there are too few results.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use model::node::PeerId;

use super::gather::Gathered;
use super::inbox::Failure;
use super::node_registry::Access;
use super::order::{NodeCount, Order};
use super::rollcall::Roster;
use crate::message::Code;

/// Maximum number of peers named in one message. Of the rest, only the number is given.
const NAMED_MAX: usize = 8;

/// Describes why a roll call found too few of the `listening` workers. `is_late` is true if the time of
/// the roll call has passed.
pub(super) fn too_few(
    order: &Order,
    roster: &Roster,
    listening: &[PeerId],
    is_late: bool,
) -> String {
    let wanted = match order.nodes {
        NodeCount::Exactly(n) => counted(n.get(), "node"),
        NodeCount::Everyone => "any node".to_owned(),
    };
    let (requirement, selected, note) = match &order.requirements.selector {
        Some(selector) => (format!(" that `{selector}` selects"), " that the selector selects", ""),
        None if order.requirements.is_empty() => (String::new(), "", ""),
        None => (
            " with the requested attributes".to_owned(),
            "",
            ", with these attributes or without them",
        ),
    };
    let group = match &order.subgroup {
        Some(subgroup) => format!("subgroup {subgroup}"),
        None => "the cluster".to_owned(),
    };
    let within = if is_late {
        format!(" within {} s", order.roll_call_within.as_secs_f64())
    } else {
        String::new()
    };
    let mut ready: Vec<String> = roster.ready.iter().map(PeerId::to_string).collect();
    ready.sort();
    let mut message = format!(
        "asked {group} for {wanted}{requirement}, and {} reported{within}{}; {} of it{selected} {} \
         connected{note}",
        ready.len(),
        if ready.is_empty() { String::new() } else { format!(" ({})", list_names(&ready)) },
        counted(listening.len(), "worker"),
        if listening.len() == 1 { "is" } else { "are" },
    );
    let n_fetching = roster.n_fetching();
    if n_fetching > 0 {
        message = format!("{message}; {n_fetching} still fetching the function");
    }
    if order.function.is_chosen() {
        let id = order.function;
        message = format!(
            "{message}; `{id}` is not a content id (CID), so only nodes that installed a function under \
             this name can run it"
        );
    }
    with_refusals(message, roster)
}

/// Describes that all eligible workers were busy.
pub(super) fn still_queued(order: &Order, roster: &Roster) -> String {
    let within = order.wait_within.as_secs_f64();
    let message = format!(
        "no worker was free and responding within {within} s; try again later, or with a longer timeout"
    );
    with_refusals(message, roster)
}

/// Appends the number of nodes that get no work because of the operator's decisions, by kind of
/// decision.
pub(super) fn with_withheld(message: String, withheld: &BTreeMap<Access, usize>) -> String {
    let why = withheld.iter().filter_map(|(access, n)| {
        let why = access.reason()?;
        Some(format!("{n} more {} {why}", if *n == 1 { "is" } else { "are" }))
    });
    match why.collect::<Vec<_>>() {
        why if why.is_empty() => message,
        why => format!("{message}; {} (see triptych nodes)", why.join(", ")),
    }
}

/// Appends the workers that refused, with their reasons.
fn with_refusals(message: String, roster: &Roster) -> String {
    let refusals = list_refusals(roster.refusals());
    if refusals.is_empty() { message } else { format!("{message}; refused by {refusals}") }
}

fn list_refusals<'a>(refused: impl Iterator<Item = (&'a PeerId, &'a str)>) -> String {
    let refused = refused.map(|(peer, reason)| format!("{peer}: {reason}"));
    list_names(&refused.collect::<Vec<_>>())
}

/// Returns the code for the gathered results and a description of failures.
pub(super) fn summarize(gathered: &Gathered, order: &Order) -> (Code, String) {
    let (n_answers, n_failed) = (gathered.answers.len(), gathered.failed.len());
    let n_peers = n_answers + n_failed;
    let (n_equal, quorum) = (gathered.n_equal(), order.quorum.map(NonZeroUsize::get));
    let shortfall = match quorum {
        Some(quorum) if n_equal >= quorum => return (Code::OK, String::new()),
        Some(quorum) if n_equal < 2 => format!("no results are equal, and the quorum is {quorum}"),
        Some(quorum) => format!("{n_equal} results are equal, and the quorum is {quorum}"),
        None => String::new(),
    };
    if n_failed == 0 {
        let code = if shortfall.is_empty() { Code::OK } else { Code::PARTIAL_CONTENT };
        return (code, shortfall);
    }
    let failures = gathered.failed.iter().chain(&gathered.replaced);
    let failures: Vec<String> =
        failures.map(|(peer, failure)| format!("{peer} {}", failure.public_text())).collect();
    let (nodes, group) = (counted(n_peers, "node"), group(order));
    let mut message =
        format!("{n_answers} of {nodes}{group} returned a result: {}", list_names(&failures));
    let refusals = gathered.refused.iter().map(|(peer, reason)| (peer, reason.as_str()));
    let refusals = list_refusals(refusals);
    if !refusals.is_empty() {
        message = format!("{message}; no spare: {refusals}");
    }
    let code = match n_answers {
        0 => return (common_code(gathered), message),
        _ if shortfall.is_empty() && order.threshold <= gathered.share() => Code::OK,
        _ => Code::PARTIAL_CONTENT,
    };
    if !shortfall.is_empty() {
        message = format!("{shortfall}; {message}");
    }
    (code, message)
}

/// Returns the code of all failures if they agree, else [`Code::ERROR`].
fn common_code(gathered: &Gathered) -> Code {
    let mut codes: Vec<Code> = gathered
        .failed
        .values()
        .map(|failure| match failure {
            Failure::Refused(code, _) | Failure::Final(code, _) => code.clone(),
            Failure::Silent | Failure::Overtaken | Failure::Lost => Code::NO_CONTENT,
            _ => Code::ERROR,
        })
        .collect();
    codes.sort();
    codes.dedup();
    match codes.as_slice() {
        [code] => code.clone(),
        _ => Code::ERROR,
    }
}

/// Returns a phrase that names the order's group, or an empty text for the whole cluster.
fn group(order: &Order) -> String {
    order.subgroup.as_ref().map_or_else(String::new, |name| format!(" of subgroup {name}"))
}

fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Joins the first names and counts the rest.
pub(super) fn list_names(all: &[String]) -> String {
    let named: Vec<&str> = all.iter().take(NAMED_MAX).map(String::as_str).collect();
    match all.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        n_more => format!("{}, and {n_more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::NodeResult;

    fn order(config: &serde_json::Value) -> Order {
        let function = model::function::FunctionId::from_module(b"module").to_string();
        let request = json!({"function_id": function, "method": "m.wasm", "config": config});
        Order::read(serde_json::from_value(request).unwrap()).unwrap()
    }

    #[track_caller]
    fn check(n_answers: usize, failures: &[Failure], want: (&Code, &str)) {
        let id = |n: usize| -> PeerId { format!("12D3KooWpeer{}", n + 1).parse().unwrap() };
        let gathered = Gathered {
            answers: (0..n_answers).map(|n| (id(n), NodeResult::default())).collect(),
            failed: failures
                .iter()
                .enumerate()
                .map(|(n, failure)| (id(n_answers + n), failure.clone()))
                .collect(),
            ..Gathered::default()
        };
        let (code, message) = summarize(&gathered, &order(&json!({})));
        assert_eq!((&code, message.as_str()), want);
    }

    #[test]
    fn response_code_depends_on_the_share_of_workers_that_returned_a_result() {
        use Failure::{Lost, Silent, Unreached};
        check(3, &[], (&Code::OK, ""));
        check(2, &[Lost], (&Code::OK, "2 of 3 nodes returned a result: 12D3KooWpeer3 was lost"));
        check(
            1,
            &[Silent],
            (
                &Code::PARTIAL_CONTENT,
                "1 of 2 nodes returned a result: 12D3KooWpeer2 did not respond in time",
            ),
        );
        check(
            0,
            &[Silent],
            (
                &Code::NO_CONTENT,
                "0 of 1 node returned a result: 12D3KooWpeer1 did not respond in time",
            ),
        );
        check(
            0,
            &[Unreached("gone".into())],
            (&Code::ERROR, "0 of 1 node returned a result: 12D3KooWpeer1 was not reached (gone)"),
        );
    }

    #[test]
    fn message_names_the_group_and_the_workers_that_refused() {
        let id = |n: u8| -> PeerId { format!("12D3KooWpeer{n}").parse().unwrap() };
        let gathered = Gathered {
            answers: [(id(1), NodeResult::default())].into(),
            failed: [(id(2), Failure::Lost)].into(),
            refused: [(id(3), "no free slot".to_owned())].into(),
            ..Gathered::default()
        };
        let subgroup = Some("gpu".parse().unwrap());
        let order = Order { subgroup, ..order(&json!({"number_of_nodes": 2})) };
        let (code, message) = summarize(&gathered, &order);
        assert_eq!(code, Code::PARTIAL_CONTENT);
        assert_eq!(
            message,
            "1 of 2 nodes of subgroup gpu returned a result: 12D3KooWpeer2 was lost; no spare: \
             12D3KooWpeer3: no free slot"
        );
    }

    #[test]
    fn execution_is_complete_only_if_its_quorum_of_results_is_equal() {
        let id = |n: u8| -> PeerId { format!("12D3KooWpeer{n}").parse().unwrap() };
        let answer = |exit_code| {
            let outcome = wire::functions::Outcome { exit_code, ..Default::default() };
            NodeResult { result: outcome, ..NodeResult::default() }
        };
        let answers = [(id(1), answer(0)), (id(2), answer(0)), (id(3), answer(1))].into();
        let gathered = Gathered { answers, ..Gathered::default() };
        let order = |quorum: u32| order(&json!({"number_of_nodes": 3, "quorum": quorum}));
        assert_eq!(summarize(&gathered, &order(2)), (Code::OK, String::new()));
        let shortfall = "2 results are equal, and the quorum is 3".to_owned();
        assert_eq!(summarize(&gathered, &order(3)), (Code::PARTIAL_CONTENT, shortfall));
        let answers = [(id(1), answer(0)), (id(3), answer(1))].into();
        let differing = Gathered { answers, ..Gathered::default() };
        let shortfall = "no results are equal, and the quorum is 2".to_owned();
        assert_eq!(summarize(&differing, &order(2)), (Code::PARTIAL_CONTENT, shortfall));
    }

    #[test]
    fn execution_returns_the_code_of_its_workers_if_all_refuse_with_the_same_code() {
        let missing =
            Failure::Refused(Code::NOT_FOUND, "function is not stored on this worker".into());
        let full = Failure::Refused(Code::ERROR, String::new());
        check(
            0,
            std::slice::from_ref(&missing),
            (
                &Code::NOT_FOUND,
                "0 of 1 node returned a result: 12D3KooWpeer1 refused (function is not stored on this worker)",
            ),
        );
        check(
            0,
            &[missing, full],
            (
                &Code::ERROR,
                "0 of 2 nodes returned a result: 12D3KooWpeer1 refused (function is not stored on this worker), \
                 12D3KooWpeer2 refused with code 500",
            ),
        );
    }
}
