use proptest::prelude::*;

use super::*;

/// Serves up to `n` requests and returns them in order.
fn served(queue: &mut FairQueue<u8, u32>, n: usize) -> Vec<u32> {
    let mut out = Vec::new();
    queue.serve(|request| {
        if out.len() >= n {
            return Verdict::Waits;
        }
        out.push(*request);
        Verdict::Served
    });
    out
}

#[test]
fn clients_take_turns_and_keep_their_own_order() {
    let mut queue = FairQueue::default();
    for request in 10..14 {
        queue.push(1, request);
    }
    queue.push(2, 20);
    assert_eq!(served(&mut queue, 1), [10]);
    queue.push(3, 30);
    assert_eq!(served(&mut queue, 9), [20, 11, 30, 12, 13]);
    assert_eq!(queue.len(), 0);
}

#[test]
fn request_that_cannot_be_served_delays_no_other() {
    let mut queue = FairQueue::default();
    for (client, request) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        queue.push(client, request);
    }
    let mut n_served = 0;
    queue.serve(|request| {
        if *request == 1 {
            return Verdict::Waits;
        }
        n_served += 1;
        Verdict::Served
    });
    assert_eq!((n_served, queue.len()), (2, 2));
    queue.serve(|_| Verdict::Dropped);
    assert_eq!(queue.len(), 0);
}

proptest! {
    #[test]
    fn client_waits_for_at_most_one_request_of_each_other_client(
        others in prop::collection::vec((0_u8..5, 100_u32..200), 0..60),
    ) {
        let mut queue = FairQueue::default();
        for (client, request) in &others {
            queue.push(*client, *request);
        }
        queue.push(9, 9);
        let clients: std::collections::BTreeSet<u8> = others.iter().map(|(c, _)| *c).collect();
        let order = served(&mut queue, usize::MAX);
        prop_assert_eq!(order.iter().position(|request| *request == 9), Some(clients.len()));
        prop_assert_eq!(order.len(), others.len() + 1);
    }
}
