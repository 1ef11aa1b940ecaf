use proptest::prelude::*;

use super::*;

/// A queue in which the grant of each request is the request itself, and the receivers of the grants.
#[derive(Default)]
struct Requests {
    queue: FairQueue<u8, u32, u32>,
    receivers: Vec<oneshot::Receiver<u32>>,
}

impl Requests {
    fn push(&mut self, client: u8, request: u32) {
        self.receivers.push(self.queue.push(client, request));
    }

    /// Serves up to `n` requests and returns them in order.
    fn served(&mut self, n: usize) -> Vec<u32> {
        let mut out = Vec::new();
        let grants = self.queue.serve(|_, request| {
            if out.len() >= n {
                return Verdict::Waits;
            }
            out.push(*request);
            Verdict::Served(*request)
        });
        grants.send();
        out
    }
}

#[test]
fn clients_take_turns_and_requests_of_one_client_are_served_in_order() {
    let mut requests = Requests::default();
    for request in 10..14 {
        requests.push(1, request);
    }
    requests.push(2, 20);
    assert_eq!(requests.served(1), [10]);
    requests.push(3, 30);
    assert_eq!(requests.served(9), [20, 11, 30, 12, 13]);
    assert_eq!(requests.queue.len(), 0);
    let granted = requests.receivers.into_iter().map(|mut grant| grant.try_recv().unwrap());
    assert_eq!(granted.collect::<Vec<_>>(), [10, 11, 12, 13, 20, 30]);
}

#[test]
fn request_that_cannot_be_served_does_not_delay_other_requests() {
    let mut requests = Requests::default();
    for (client, request) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        requests.push(client, request);
    }
    let grants = requests.queue.serve(|_, request| match request {
        1 => Verdict::Waits,
        request => Verdict::Served(*request),
    });
    assert_eq!((grants.0.len(), requests.queue.len()), (2, 2));
    grants.send();
    requests.queue.serve(|_, _| Verdict::Dropped).send();
    assert_eq!(requests.queue.len(), 0);
}

#[test]
fn request_with_a_dropped_receiver_is_skipped() {
    let mut requests = Requests::default();
    requests.push(1, 1);
    requests.push(1, 2);
    requests.receivers.remove(0);
    assert_eq!(requests.served(9), [2]);
}

proptest! {
    #[test]
    fn request_of_a_new_client_waits_for_one_request_per_other_client(
        others in prop::collection::vec((0_u8..5, 100_u32..200), 0..60),
    ) {
        let mut requests = Requests::default();
        for (client, request) in &others {
            requests.push(*client, *request);
        }
        requests.push(9, 9);
        let clients: std::collections::BTreeSet<u8> = others.iter().map(|(c, _)| *c).collect();
        let order = requests.served(usize::MAX);
        prop_assert_eq!(order.iter().position(|request| *request == 9), Some(clients.len()));
        prop_assert_eq!(order.len(), others.len() + 1);
    }
}
