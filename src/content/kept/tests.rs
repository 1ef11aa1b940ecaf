use model::function::Method;

use super::super::Kind;
use super::*;

const LIMITS: StoreLimits = StoreLimits { functions: 80, bytes: 80_000 };

fn function(n: u32) -> Function {
    let id = FunctionId::from_module(&n.to_be_bytes());
    let method: Method = "m.wasm".parse().unwrap();
    Function { id, name: "m".into(), method, size_bytes: 100, kept_bytes: 100, kind: Kind::Module }
}

fn stranger(n: usize) -> Requester {
    // The base58 alphabet of peer ids has no digit 0.
    Requester::Peer(format!("12D3KooWstranger{n}").replace('0', "z").parse().unwrap())
}

fn named() -> Requester {
    Requester::Named("12D3KooWnamed".parse().unwrap())
}

/// Stores a function and returns the ids of the functions that it evicted.
fn keep(index: &mut Index, function: Function, requester: &Requester) -> Vec<FunctionId> {
    let removed = index.make_room(&function, requester).unwrap();
    index.insert(function, None, Custody { requester: requester.clone(), has_run: false });
    removed.into_iter().map(|removed| removed.id).collect()
}

/// Stores `ids` on behalf of `requester`.
fn fill(index: &mut Index, ids: std::ops::Range<u32>, requester: &Requester) {
    for n in ids {
        keep(index, function(n), requester);
    }
}

#[track_caller]
fn check(index: &Index, ids: std::ops::Range<u32>, n_kept: usize) {
    let kept = ids.filter(|n| index.get(function(*n).id).is_some()).count();
    assert_eq!(kept, n_kept);
}

#[test]
fn stranger_with_a_full_share_evicts_only_its_own_functions() {
    let mut index = Index::new(LIMITS);
    fill(&mut index, 0..5, &stranger(0));
    fill(&mut index, 100..1100, &stranger(1));
    check(&index, 0..5, 5);
    check(&index, 100..1090, 0);
    check(&index, 1090..1100, 10);
}

#[test]
fn strangers_evict_neither_pinned_functions_nor_functions_of_named_peers() {
    let mut index = Index::new(LIMITS);
    fill(&mut index, 0..20, &Requester::Operator);
    fill(&mut index, 20..80, &named());
    for n in 0..1000 {
        keep(&mut index, function(100 + n), &stranger(n as usize));
    }
    check(&index, 0..20, 20);
    check(&index, 20..80, 50);
    check(&index, 1090..1100, 10);
    assert_eq!(index.total(), Usage { functions: 80, bytes: 8000 });
    // A named peer evicts functions of strangers first.
    fill(&mut index, 2000..2010, &named());
    check(&index, 20..80, 50);
    check(&index, 1090..1100, 0);
}

#[test]
fn functions_that_never_ran_are_evicted_first() {
    let mut index = Index::new(LIMITS);
    fill(&mut index, 0..5, &stranger(0));
    for n in 0..5 {
        assert!(index.note_use(function(n).id, &stranger(0), true).is_some());
        assert!(index.note_use(function(n).id, &stranger(0), true).is_none(), "it is saved");
    }
    for n in 0..1000 {
        keep(&mut index, function(100 + n), &stranger(1 + n as usize));
    }
    check(&index, 0..5, 5);
    assert_eq!(index.total().functions, 80);
}

#[test]
fn function_used_by_a_named_peer_belongs_to_it_and_function_used_by_an_operator_is_pinned() {
    let mut index = Index::new(LIMITS);
    fill(&mut index, 0..2, &stranger(0));
    assert!(index.note_use(function(0).id, &named(), true).is_some());
    assert!(index.note_use(function(1).id, &Requester::Operator, false).is_some());
    assert!(index.note_use(function(1).id, &stranger(3), false).is_none(), "it stays pinned");
    assert_eq!(index.foremost(2), [function(1).id, function(0).id]);
    let removed: Vec<FunctionId> = index.remove_unpinned().into_iter().map(|it| it.id).collect();
    assert_eq!(removed, [function(0).id]);
    assert_eq!(index.total().functions, 1);
}

#[test]
fn nothing_is_evicted_for_a_function_that_cannot_fit() {
    let mut index = Index::new(LIMITS);
    fill(&mut index, 0..40, &Requester::Operator);
    fill(&mut index, 40..60, &named());
    let large = Function { kept_bytes: 79_000, ..function(99) };
    assert!(matches!(index.make_room(&large, &named()), Err(FunctionsError::Full)));
    check(&index, 0..60, 60);
    let large = Function { kept_bytes: 75_000, ..function(99) };
    assert_eq!(keep(&mut index, large, &named()).len(), 10, "as many as needed");
}

#[test]
fn addresses_of_a_function_are_limited_and_removed_with_the_function() {
    let mut index = Index::new(LIMITS);
    let target = function(0).id;
    fill(&mut index, 0..1, &stranger(0));
    let address = |n: usize| {
        let address = format!("https://example.com/{n}");
        InstallSource { id: FunctionId::from_address(&address), address, function: target }
    };
    for n in 0..ADDRESSES_MAX {
        assert_eq!(index.make_room_for_address(target, &stranger(0)).unwrap(), None);
        assert!(index.insert_address(address(n)));
    }
    let refused = index.make_room_for_address(target, &stranger(0));
    assert!(matches!(refused, Err(FunctionsError::Full)));
    let replaced = index.make_room_for_address(target, &Requester::Operator).unwrap();
    assert_eq!(replaced, Some(address(0).id));
    assert!(index.insert_address(address(9)));
    assert_eq!(index.get(address(9).id).map(|function| function.id), Some(target));
    assert_eq!(index.get(address(0).id), None);
    assert_eq!(index.remove(target).unwrap().addresses.len(), ADDRESSES_MAX);
    assert_eq!(index.get(address(9).id), None);
}
