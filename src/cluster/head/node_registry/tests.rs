use std::fs;

use super::*;

fn id(n: usize) -> PeerId {
    format!("12D3KooWpeer{}", n + 1).replace('0', "A").parse().unwrap()
}

fn cordon(decision: &mut Decision) {
    decision.is_cordoned = true;
}

fn approve(decision: &mut Decision) {
    decision.approval = NodeApproval::Approved;
}

fn refuse(decision: &mut Decision) {
    decision.approval = NodeApproval::Refused;
}

#[test]
fn decisions_about_nodes_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let registry = NodeRegistry::open(Some(dir.path()), true).unwrap();
    registry.decide(&id(1), cordon).unwrap();
    registry.decide(&id(1), approve).unwrap();
    registry.decide(&id(2), refuse).unwrap();
    let again = NodeRegistry::open(Some(dir.path()), true).unwrap();
    let accesses = [id(1), id(2), id(3)].map(|peer| again.access(&peer));
    assert_eq!(accesses, [Access::Cordoned, Access::Refused, Access::Pending]);
    assert_eq!(again.allowed_peers(), Some([id(1)].into()));
    again.decide(&id(1), |decision| decision.is_cordoned = false).unwrap();
    assert_eq!(again.access(&id(1)), Access::Open);
    for peer in [id(1), id(2)] {
        again.decide(&peer, |decision| *decision = Decision::default()).unwrap();
    }
    assert_eq!(fs::read_to_string(dir.path().join(FILE)).unwrap(), "[]");
}

#[test]
fn peers_named_on_the_command_line_are_approved_until_they_are_refused() {
    for requires_approval in [false, true] {
        let registry = NodeRegistry::open(None, requires_approval).unwrap();
        let named: AllowedPeers = Some([id(1), id(2)].into());
        assert_eq!(registry.configure(named.clone()), named);
        registry.decide(&id(2), refuse).unwrap();
        registry.decide(&id(3), approve).unwrap();
        assert_eq!(registry.access(&id(1)), Access::Open);
        assert_eq!(registry.access(&id(2)), Access::Refused);
        // If no approval is required, only the command line determines the allowed peers.
        let allowed = if requires_approval { Some([id(1), id(3)].into()) } else { named };
        assert_eq!(registry.allowed_peers(), allowed);
        let others = if requires_approval { Access::Pending } else { Access::Unnamed };
        assert_eq!(registry.access(&id(4)), others);
    }
    let open = NodeRegistry::default();
    assert_eq!((open.allowed_peers(), open.access(&id(1))), (None, Access::Open));
}

#[test]
fn invalid_file_is_rejected_and_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    for text in ["nonsense", r#"[{"id": "no id"}]"#, r#"[{"id": "12D3A", "approval": "maybe"}]"#] {
        fs::write(dir.path().join(FILE), text).unwrap();
        let error = NodeRegistry::open(Some(dir.path()), false).unwrap_err();
        assert!(error.to_string().contains(FILE), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join(FILE)).unwrap(), text);
    }
}

#[test]
fn decision_that_cannot_be_written_has_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let registry = NodeRegistry::open(Some(&dir.path().join("gone")), false).unwrap();
    let error = registry.decide(&id(1), cordon).unwrap_err();
    assert!(matches!(error, ChangeError::Write { .. }), "{error:?}");
    assert_eq!(registry.access(&id(1)), Access::Open);
}

#[test]
fn withdrawing_a_decision_at_the_limit_makes_room_for_another_decision() {
    let registry = NodeRegistry::default();
    for n in 0..DECISIONS_MAX {
        registry
            .table
            .write()
            .by_peer
            .insert(id(n), Decision { is_cordoned: true, ..Decision::default() });
    }
    assert!(matches!(registry.decide(&id(DECISIONS_MAX), cordon), Err(ChangeError::Full)));
    registry.decide(&id(0), |decision| decision.is_cordoned = false).unwrap();
    registry.decide(&id(DECISIONS_MAX), cordon).unwrap();
}
