use std::collections::VecDeque;

use tokio::time::advance;
use wire::functions::{NodeApproval, Outcome};

use super::worker::{FRESH_WITHIN, FULL_FOR, SILENT_FOR};
use super::*;
use crate::message::Offer;
use crate::result_groups::group;

fn id(n: u8) -> PeerId {
    format!("12D3KooWpeer{n}").parse().unwrap()
}

fn function() -> FunctionId {
    FunctionId::from_module(b"module")
}

fn want(n: usize) -> SlotRequest {
    SlotRequest {
        function: function(),
        subgroup: None,
        requirements: Requirements::default(),
        n,
        can_fetch: false,
    }
}

fn offer(n_slots: usize, n_usable: usize) -> Arc<NodeOffer> {
    Arc::new(NodeOffer {
        functions: [function()].into(),
        subgroups: ["gpu".to_owned()].into(),
        n_slots,
        n_usable,
        ..NodeOffer::default()
    })
}

fn slots_with(offers: &[(usize, usize)]) -> Slots {
    let slots = Slots::new(NodeRegistry::default(), 64);
    for (n, (all, free)) in (1..).zip(offers) {
        slots.note_offer(&id(n), offer(*all, *free));
    }
    slots
}

fn take(slots: &Slots, want: SlotRequest) -> SlotGrant {
    slots.take(&Client::Program, want)
}

fn peers(taken: &[Lease]) -> Vec<PeerId> {
    taken.iter().map(|lease| lease.peer.clone()).collect()
}

#[track_caller]
fn granted(taken: SlotGrant) -> Vec<Lease> {
    let SlotGrant::Now(leases) = taken else { panic!("not granted immediately: {taken:?}") };
    leases
}

#[tokio::test(start_paused = true)]
async fn slots_of_fresh_offers_are_granted_and_old_offers_ignored() {
    let slots = slots_with(&[(2, 2), (4, 4)]);
    assert_eq!(granted(take(&slots, want(2))).len(), 2);
    assert!(matches!(take(&slots, want(3)), SlotGrant::Unknown));
    advance(FRESH_WITHIN).await;
    assert!(matches!(take(&slots, want(1)), SlotGrant::Unknown));
}

#[tokio::test(start_paused = true)]
async fn offers_of_unapproved_peers_use_no_memory() {
    let registry = NodeRegistry::open(None, true).unwrap();
    registry.decide(&id(1), |decision| decision.approval = NodeApproval::Approved).unwrap();
    let slots = Slots::new(registry.clone(), 100);
    slots.note_offer(&id(1), offer(2, 2));
    for n in 0..1000 {
        let pending = format!("12D3KooWflood{}", n + 1).replace(['0', 'l'], "A").parse().unwrap();
        slots.note_offer(&pending, offer(1000, 1000));
        assert_eq!(peers(&granted(take(&slots, want(1)))), [id(1)]);
        slots.note_lost(&pending);
    }
    assert_eq!(slots.0.lock().workers.len(), 1);
    assert_eq!(registry.decided(), [id(1)]);
}

#[tokio::test(start_paused = true)]
async fn slot_is_granted_only_if_function_and_group_match() {
    let slots = slots_with(&[(2, 2)]);
    let other = SlotRequest { function: FunctionId::from_module(b"other"), ..want(1) };
    assert!(matches!(take(&slots, other.clone()), SlotGrant::Unknown));
    slots.note_answer(&id(1), other.function, Duration::ZERO);
    assert_eq!(granted(take(&slots, other.clone())).len(), 1);
    slots.note_missing(&id(1), other.function);
    assert!(matches!(take(&slots, other), SlotGrant::Unknown));
    let grouped = |name: &str| SlotRequest { subgroup: Some(name.to_owned()), ..want(1) };
    assert_eq!(granted(take(&slots, grouped("gpu"))).len(), 1);
    assert!(matches!(take(&slots, grouped("cpu")), SlotGrant::Unknown));
}

#[tokio::test(start_paused = true)]
async fn idle_workers_share_the_work() {
    let slots = slots_with(&[(3, 3), (3, 3), (3, 3)]);
    let leases: Vec<Lease> = (0..9).flat_map(|_| granted(take(&slots, want(1)))).collect();
    assert_eq!(leases.len(), 9);
    drop(leases);
    let mut counts = BTreeMap::new();
    for _ in 0..300 {
        let leases = granted(take(&slots, want(1)));
        *counts.entry(peers(&leases).remove(0)).or_insert(0) += 1;
    }
    assert!(counts.len() == 3 && counts.values().all(|n| *n >= 50), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_get_slots_in_order() {
    let slots = slots_with(&[(1, 1)]);
    let first = granted(take(&slots, want(1)));
    let (SlotGrant::Later(mut second), SlotGrant::Later(mut third)) =
        (take(&slots, want(1)), take(&slots, want(1)))
    else {
        panic!("the slot is taken");
    };
    drop(first);
    let second = second.granted.try_recv().unwrap();
    assert!(third.granted.try_recv().is_err(), "one slot, one lease");
    drop(second);
    assert_eq!(peers(&third.granted.try_recv().unwrap()), [id(1)]);
}

#[tokio::test(start_paused = true)]
async fn slot_of_an_abandoned_request_is_granted_to_the_next_request() {
    let slots = slots_with(&[(1, 1)]);
    let first = granted(take(&slots, want(1)));
    let (SlotGrant::Later(second), SlotGrant::Later(mut third)) =
        (take(&slots, want(1)), take(&slots, want(1)))
    else {
        panic!("the slot is taken");
    };
    drop(second);
    drop(first);
    assert_eq!(third.granted.try_recv().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn slots_taken_by_other_heads_are_not_free() {
    let slots = slots_with(&[(2, 1)]);
    let _one = granted(take(&slots, want(1)));
    assert_eq!(slots.offered_slots(&id(1)), Some((2, 0)));
    assert!(matches!(take(&slots, want(1)), SlotGrant::Later(_)));
    // The worker now offers both slots, including the slot that runs the order of this head.
    slots.note_offer(&id(1), offer(2, 2));
    assert_eq!(slots.offered_slots(&id(1)), Some((2, 1)), "the other run is complete");
}

#[tokio::test(start_paused = true)]
async fn trusted_spare_is_a_worker_whose_results_agreed_with_other_workers() {
    let slots = slots_with(&[(2, 2), (2, 2), (2, 2)]);
    let outcome = Outcome::default();
    let groups = group([(id(1), outcome.clone()), (id(2), outcome)]);
    (0..40).for_each(|_| slots.judge(&groups));
    let (one, two): (BTreeSet<PeerId>, _) = ([id(1)].into(), [id(1), id(2)].into());
    assert_eq!(slots.take_spare(&want(1), &one, Trust::Earned).unwrap().peer, id(2));
    assert!(slots.take_spare(&want(1), &two, Trust::Earned).is_none());
    assert_eq!(slots.take_spare(&want(1), &two, Trust::Any).unwrap().peer, id(3));
}

#[tokio::test(start_paused = true)]
async fn spare_is_never_a_worker_that_the_request_already_uses() {
    let slots = slots_with(&[(2, 2), (2, 2)]);
    let but: BTreeSet<PeerId> = [id(1)].into();
    assert_eq!(slots.take_spare(&want(1), &but, Trust::Any).unwrap().peer, id(2));
    assert!(slots.take_spare(&want(1), &[id(1), id(2)].into(), Trust::Any).is_none());
}

#[tokio::test(start_paused = true)]
async fn disconnected_or_refusing_worker_is_not_chosen() {
    let slots = slots_with(&[(1, 1), (1, 1)]);
    slots.note_lost(&id(1));
    slots.note_full(&id(2));
    let SlotGrant::Later(mut queued) = take(&slots, want(1)) else { panic!("it is full for now") };
    let granted = queued.granted().await.unwrap();
    assert_eq!(peers(&granted), [id(2)], "after a pause of {FULL_FOR:?}");
    drop(granted);
    let lease = slots.take_of(&id(3), function());
    drop(lease);
    assert!(slots.0.lock().workers.contains_key(&id(2)));
    assert!(!slots.0.lock().workers.contains_key(&id(3)), "its state is discarded");
}

#[tokio::test(start_paused = true)]
async fn silent_worker_gets_one_test_order_after_each_pause_and_pauses_double() {
    let slots = slots_with(&[(9, 9)]);
    slots.note_silent(&id(1));
    assert!(matches!(take(&slots, want(1)), SlotGrant::Unknown));
    assert_eq!(slots.weight_of(&id(1)), None);
    advance(SILENT_FOR).await;
    let tried = granted(take(&slots, want(1)));
    assert!(matches!(take(&slots, want(1)), SlotGrant::Unknown), "one order tests the worker");
    drop(tried);
    slots.note_silent(&id(1));
    advance(SILENT_FOR).await;
    assert!(matches!(take(&slots, want(1)), SlotGrant::Unknown), "twice as long");
    advance(SILENT_FOR).await;
    drop(granted(take(&slots, want(1))));
    slots.note_answer(&id(1), function(), Duration::from_millis(1));
    assert_eq!([granted(take(&slots, want(1))), granted(take(&slots, want(1)))].len(), 2);
}

#[tokio::test(start_paused = true)]
async fn worker_that_misses_two_pings_gets_no_work_until_it_responds() {
    let slots = slots_with(&[(9, 9)]);
    let running = granted(take(&slots, want(1)));
    assert_eq!(slots.slow_workers(Duration::from_secs(1)), []);
    advance(Duration::from_secs(2)).await;
    assert_eq!(slots.slow_workers(Duration::from_secs(1)), [id(1)]);
    let missed: Vec<bool> = (0..4).map(|_| slots.note_ping(&id(1))).collect();
    assert_eq!(
        missed,
        [false, false, true, false],
        "the third ping is sent after two missed pings"
    );
    assert!(matches!(take(&slots, want(1)), SlotGrant::Unknown));
    drop(running);
    assert_eq!(slots.slow_workers(Duration::from_secs(1)), [id(1)], "until it responds");
    slots.note_pong(&id(1));
    assert_eq!(granted(take(&slots, want(1))).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn offered_slots_are_limited_to_256() {
    let slots = slots_with(&[]);
    let n = 1_000_000_000;
    let offer = NodeOffer::read(&Offer { slots: n, slots_free: n, ..Offer::default() });
    slots.note_offer(&id(1), offer.into());
    assert_eq!(slots.offered_slots(&id(1)), Some((256, 256)));
}

#[tokio::test(start_paused = true)]
async fn clients_waiting_for_slots_take_turns() {
    let slots = slots_with(&[(1, 1)]);
    let network =
        |text: &str| Client::Network(web::address::Network::from_address(text.parse().unwrap()));
    let first = granted(slots.take(&network("10.0.0.1"), want(1)));
    let mut greedy: Vec<QueuedRequest> = Vec::new();
    for _ in 0..5 {
        let SlotGrant::Later(queued) = slots.take(&network("10.0.0.1"), want(1)) else { panic!() };
        greedy.push(queued);
    }
    let SlotGrant::Later(mut modest) = slots.take(&network("10.0.0.2"), want(1)) else { panic!() };
    drop(first);
    drop(greedy[0].granted.try_recv().unwrap());
    assert!(modest.granted.try_recv().is_ok(), "the second slot is granted to the other client");
}

#[tokio::test(start_paused = true)]
async fn number_of_requests_that_overtake_a_request_for_two_workers_is_limited() {
    let slots = slots_with(&[(1, 1), (1, 1)]);
    let network =
        |text: &str| Client::Network(web::address::Network::from_address(text.parse().unwrap()));
    let mut running: VecDeque<Lease> = granted(slots.take(&network("10.0.0.1"), want(2))).into();
    let SlotGrant::Later(mut both) = slots.take(&network("10.0.0.2"), want(2)) else { panic!() };
    let mut waiting: VecDeque<QueuedRequest> = VecDeque::new();
    for n_overtaken in 0..2 * OVERTAKEN_MAX {
        while waiting.len() < 4 {
            let taken = slots.take(&network("10.0.0.1"), want(1));
            let SlotGrant::Later(queued) = taken else { panic!("{taken:?}") };
            waiting.push_back(queued);
        }
        drop(running.pop_front());
        if both.granted.try_recv().is_ok() {
            assert!(n_overtaken > OVERTAKEN_MAX / 2, "overtaken {n_overtaken} times");
            return;
        }
        waiting.retain_mut(|queued| match queued.granted.try_recv() {
            Ok(leases) => {
                running.extend(leases);
                false
            }
            Err(_) => true,
        });
    }
    panic!("the request for two workers still waits");
}
