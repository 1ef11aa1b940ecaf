use tokio::time::advance;

use super::*;

fn id(n: u8) -> PeerId {
    format!("12D3KooWpeer{n}").parse().unwrap()
}

fn function() -> FunctionId {
    FunctionId::of_module(b"module")
}

fn want(n: usize) -> Want {
    Want { function: function(), subgroup: None, n }
}

fn offer(slots: usize, slots_free: usize) -> Offer {
    Offer {
        functions: vec![function().to_string()],
        subgroups: vec!["gpu".to_owned()],
        slots,
        slots_free,
        ..Offer::default()
    }
}

fn offered(offers: &[(usize, usize)]) -> Slots {
    let slots = Slots::default();
    for (n, (all, free)) in (1..).zip(offers) {
        slots.offered(&id(n), &offer(*all, *free), 10);
    }
    slots
}

fn peers(taken: &[Lease]) -> Vec<PeerId> {
    taken.iter().map(|lease| lease.peer().clone()).collect()
}

#[track_caller]
fn now(taken: Taken) -> Vec<Lease> {
    let Taken::Now(leases) = taken else { panic!("not at once: {taken:?}") };
    leases
}

#[tokio::test(start_paused = true)]
async fn fresh_offers_are_taken_at_once_and_old_ones_not_at_all() {
    let slots = offered(&[(2, 2), (4, 4)]);
    assert_eq!(peers(&now(slots.take(want(2)))), [id(2), id(1)]);
    assert!(matches!(slots.take(want(3)), Taken::Unknown));
    advance(FRESH_WITHIN).await;
    assert!(matches!(slots.take(want(1)), Taken::Unknown));
}

#[tokio::test(start_paused = true)]
async fn the_function_and_the_group_must_fit() {
    let slots = offered(&[(2, 2)]);
    let other = Want { function: FunctionId::of_module(b"other"), ..want(1) };
    assert!(matches!(slots.take(other.clone()), Taken::Unknown));
    slots.holds(&id(1), other.function);
    assert_eq!(now(slots.take(other.clone())).len(), 1);
    slots.lacks(&id(1), other.function);
    assert!(matches!(slots.take(other), Taken::Unknown));
    let grouped = |name: &str| Want { subgroup: Some(name.to_owned()), ..want(1) };
    assert_eq!(now(slots.take(grouped("gpu"))).len(), 1);
    assert!(matches!(slots.take(grouped("cpu")), Taken::Unknown));
}

#[tokio::test(start_paused = true)]
async fn workers_take_turns() {
    let slots = offered(&[(3, 3), (3, 3), (3, 3)]);
    let leases: Vec<Lease> = (0..3).flat_map(|_| now(slots.take(want(1)))).collect();
    assert_eq!(peers(&leases), [id(1), id(2), id(3)]);
    drop(leases);
    assert_eq!(peers(&now(slots.take(want(1)))), [id(1)]);
}

#[tokio::test(start_paused = true)]
async fn who_finds_all_taken_waits_in_order_and_is_served() {
    let slots = offered(&[(1, 1)]);
    let first = now(slots.take(want(1)));
    let (Taken::Later(mut second), Taken::Later(mut third)) =
        (slots.take(want(1)), slots.take(want(1)))
    else {
        panic!("the slot is taken");
    };
    drop(first);
    let second = second.try_recv().unwrap();
    assert!(third.try_recv().is_err(), "one slot, one lease");
    drop(second);
    assert_eq!(peers(&third.try_recv().unwrap()), [id(1)]);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_the_slot_to_the_next() {
    let slots = offered(&[(1, 1)]);
    let first = now(slots.take(want(1)));
    let (Taken::Later(second), Taken::Later(mut third)) =
        (slots.take(want(1)), slots.take(want(1)))
    else {
        panic!("the slot is taken");
    };
    drop(second);
    drop(first);
    assert_eq!(third.try_recv().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn slots_that_others_take_are_not_ours() {
    let slots = offered(&[(2, 1)]);
    let _one = now(slots.take(want(1)));
    assert_eq!(slots.of(&id(1)), Some((2, 0)));
    assert!(matches!(slots.take(want(1)), Taken::Later(_)));
    // What runs for us is not in the offer.
    slots.offered(&id(1), &offer(2, 2), 10);
    assert_eq!(slots.of(&id(1)), Some((2, 1)), "the other one has ended");
}

#[tokio::test(start_paused = true)]
async fn a_spare_is_another_one() {
    let slots = offered(&[(2, 2), (2, 2)]);
    let but: BTreeSet<PeerId> = [id(1)].into();
    assert_eq!(slots.take_spare(&want(1), &but).unwrap().peer(), &id(2));
    assert!(slots.take_spare(&want(1), &[id(1), id(2)].into()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_gone_or_says_no_is_not_chosen() {
    let slots = offered(&[(1, 1), (1, 1)]);
    slots.lost(&id(1));
    slots.full(&id(2));
    assert!(matches!(slots.take(want(1)), Taken::Unknown));
    advance(FULL_FOR).await;
    assert_eq!(peers(&now(slots.take(want(1)))), [id(2)]);
    let lease = slots.take_of(&id(3));
    drop(lease);
    assert!(slots.0.lock().workers.contains_key(&id(2)));
    assert!(!slots.0.lock().workers.contains_key(&id(3)), "nothing is kept of it");
}
