use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::*;

/// Time until a send to a stalled peer fails.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(5);

fn id(n: usize) -> PeerId {
    format!("peer{n}").replace('0', "z").parse().unwrap()
}

/// Receivers and times of messages.
type Arrivals = Arc<Mutex<Vec<Arrival>>>;

#[derive(Debug, Clone, PartialEq)]
struct Arrival {
    peer: PeerId,
    message: u32,
    at: Instant,
}

/// Returns sends to peers of which the first `n_stalled` stall.
fn sends(n_stalled: usize) -> (Sends<u32>, Arrivals) {
    let stalled: Vec<PeerId> = (0..n_stalled).map(id).collect();
    let arrivals = Arrivals::default();
    let arrived = Arc::clone(&arrivals);
    let send = move |peer: PeerId, message| {
        let (is_stalled, arrived) = (stalled.contains(&peer), Arc::clone(&arrived));
        async move {
            if is_stalled {
                sleep(GIVEN_UP_AFTER).await;
            }
            arrived.lock().push(Arrival { peer, message, at: Instant::now() });
            if is_stalled { Err(SendError::Stopped) } else { Ok(()) }
        }
        .boxed()
    };
    (Sends::new(send), arrivals)
}

/// Continues with the sends for a time.
async fn go_on_for(time: Duration, sends: &mut Sends<u32>) {
    let all = async {
        loop {
            sends.next_failed().await;
        }
    };
    timeout(time, all).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn stalled_peer_delays_no_other_and_gets_the_latest_message_later() {
    let (mut sends, arrivals) = sends(1);
    let began = Instant::now();
    for message in 0..4 {
        for peer in [0, 1] {
            sends.put(id(peer), message);
        }
        go_on_for(Duration::from_secs(1), &mut sends).await;
    }
    go_on_for(2 * GIVEN_UP_AFTER, &mut sends).await;
    let arrival = |peer, message, after_secs| {
        let at = began + Duration::from_secs(after_secs);
        Arrival { peer: id(peer), message, at }
    };
    let (live, stalled): (Vec<Arrival>, Vec<Arrival>) =
        arrivals.lock().drain(..).partition(|arrival| arrival.peer == id(1));
    assert_eq!(live, [0, 1, 2, 3].map(|n| arrival(1, n, n.into())));
    assert_eq!(stalled, [arrival(0, 0, 5), arrival(0, 3, 10)]);
    assert!(sends.next.is_empty(), "nothing is left of what has ended");
}

#[tokio::test(start_paused = true)]
async fn stalled_peers_do_not_use_up_the_limit() {
    let n_stalled = 2 * PROMPT_MAX;
    let (mut sends, arrivals) = sends(n_stalled);
    for n in 0..=n_stalled {
        sends.put(id(n), 0);
    }
    assert_eq!(arrivals.lock().len(), 0);
    go_on_for(Duration::from_secs(1), &mut sends).await;
    let arrived: Vec<PeerId> = arrivals.lock().iter().map(|arrival| arrival.peer.clone()).collect();
    assert_eq!(arrived, [id(n_stalled)]);
    assert_eq!(
        (sends.in_progress.len(), sends.permits.available_permits()),
        (n_stalled, PROMPT_MAX)
    );
}

#[tokio::test(start_paused = true)]
async fn failed_send_is_reported_unless_a_newer_message_follows() {
    let (mut sends, _arrivals) = sends(2);
    sends.put(id(0), 0);
    sends.put(id(1), 0);
    sends.put(id(0), 1);
    let began = Instant::now();
    assert_eq!(sends.next_failed().await, id(1));
    assert_eq!(began.elapsed(), GIVEN_UP_AFTER);
    assert_eq!(sends.next_failed().await, id(0));
    assert_eq!(began.elapsed(), 2 * GIVEN_UP_AFTER);
}

#[test]
fn unchanged_offers_to_many_workers_are_repeated_rarely() {
    assert_eq!(wait_before(300, true, true), AGAIN_AFTER_TO_WORKERS);
    assert_eq!(wait_before(10_000, true, true), Duration::from_secs(200));
    assert_eq!(wait_before(10_000, false, true), AGAIN_AFTER, "a head believes it for so long");
}
