//! What strangers can do to a node that heeds everybody, said at its start.

use tracing::warn;

use super::{RoleOptions, WorkOptions};
use crate::{head::SignaturePolicy, network::Network};

/// Warns if peers of other machines reach the node and it heeds all of them.
pub(super) fn warn_of(network: &Network, role: &RoleOptions, work: &WorkOptions) {
    if network.heeds_everyone() && network.is_exposed() {
        for text in texts(role, work) {
            warn!("{text}");
        }
    }
}

/// What anybody can do, and what to do about it.
fn texts(role: &RoleOptions, work: &WorkOptions) -> Vec<String> {
    match role {
        RoleOptions::Worker => vec![
            "every peer that reaches this worker can run functions on it: name the heads to obey with \
             --obey PEER_ID, or listen on --address 127.0.0.1 alone"
                .to_owned(),
        ],
        RoleOptions::Head { .. } => {
            let signed = match work.signatures {
                SignaturePolicy::Required => "",
                SignaturePolicy::WhereGiven => ", and have results signed with --signed-results",
            };
            let joins = format!(
                "every peer that reaches this head can join as a worker and answer with results of \
                 its own making: name the workers to take with --accept PEER_ID, or approve them with \
                 --require-approval{signed}"
            );
            let executes = "every peer that reaches this head can have it execute functions: set \
                            --rest-token, and name clients on the network with --accept PEER_ID";
            let is_open = work.rest.token.is_none();
            [Some(joins), is_open.then(|| executes.to_owned())].into_iter().flatten().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(role: &RoleOptions, work: &WorkOptions, want: &[&str]) {
        let texts = texts(role, work);
        assert_eq!(texts.len(), want.len(), "{texts:?}");
        for (text, want) in texts.iter().zip(want) {
            assert!(text.contains(want), "{text}");
        }
    }

    #[test]
    fn each_role_warns_of_what_strangers_can_do_to_it() {
        let head = RoleOptions::Head { rest_api: ":0".to_owned() };
        check(&RoleOptions::Worker, &WorkOptions::usual(), &["--obey"]);
        check(&head, &WorkOptions::usual(), &["--signed-results", "--rest-token"]);
        check(&head, &WorkOptions::usual(), &["--require-approval", "--rest-token"]);
        let mut closed =
            WorkOptions { signatures: SignaturePolicy::Required, ..WorkOptions::usual() };
        closed.rest.token = Some("a-token-of-many-letters".parse().unwrap());
        check(&head, &closed, &["--accept"]);
    }
}
