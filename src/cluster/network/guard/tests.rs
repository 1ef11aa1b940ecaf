use web::rate_limit::Rate;

use super::*;
use crate::identity::model_peer_id;

/// Returns a rate with this burst and next to no refill.
pub(in crate::network) const fn burst_of(burst: u32) -> Rate {
    Rate { every: Duration::from_hours(1), burst }
}

const FEW: Allowances = Allowances {
    streams: Rate::per_second(1, 3),
    gossip: Rate::per_second(10, 6),
    authored: burst_of(4),
    entering: burst_of(5),
    passing: burst_of(7),
    offenses: Rate::per_second(1, 4),
    ..ALLOWANCES
};

fn guard(allowed: AllowedPeers) -> Guard {
    Guard::new(allowed, [], FEW)
}

/// Judges `n` messages of `author` that `relay` sent. Returns the numbers of forwarded, kept and ignored
/// messages.
fn verdicts(guard: &Guard, author: PeerId, relay: PeerId, n: usize) -> [usize; 3] {
    let mut counts = [0; 3];
    for _ in 0..n {
        let idx = match guard.judge_gossip(author, relay) {
            GossipVerdict::Forward => 0,
            GossipVerdict::Keep => 1,
            GossipVerdict::Ignore => 2,
        };
        counts[idx] += 1;
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn each_peer_has_a_stream_allowance_that_refills() {
    let (guard, peer) = (guard(None), PeerId::random());
    let admitted = |n: usize| (0..n).filter(|_| guard.admits_stream(peer)).count();
    assert_eq!(admitted(5), 3);
    assert!(guard.admits_stream(PeerId::random()), "each peer has its own allowance");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(admitted(3), 2);
}

#[tokio::test(start_paused = true)]
async fn excess_gossip_of_other_authors_is_dropped_without_banning_the_relaying_peer() {
    let (guard, relay) = (guard(None), PeerId::random());
    let authors: Vec<PeerId> = (0..4).map(|_| PeerId::random()).collect();
    let mut n_forwarded = 0;
    for author in authors {
        n_forwarded += verdicts(&guard, author, relay, 100)[0];
    }
    assert_eq!(n_forwarded, 7, "of all unnamed authors");
    assert_eq!((guard.is_banned(relay), guard.take_changes()), (false, (vec![], vec![])));
    // The relay's own messages have a separate allowance.
    assert_eq!(verdicts(&guard, relay, relay, 3)[2], 0);
}

#[tokio::test(start_paused = true)]
async fn relay_that_forwards_more_than_a_receiver_accepts_is_not_banned() {
    let [relay, receiver] = [(); 2].map(|()| Guard::new(None, [], ALLOWANCES));
    let (relay_id, neighbor) = (PeerId::random(), PeerId::random());
    let authors: Vec<PeerId> = (0..20).map(|_| PeerId::random()).collect();
    let [mut n_forwarded, mut n_accepted] = [0; 2];
    for _ in 0..60 {
        for (author, from) in
            authors.iter().flat_map(|author| [(author, author), (author, &neighbor)])
        {
            for _ in 0..50 {
                if relay.judge_gossip(*author, *from) == GossipVerdict::Forward {
                    n_forwarded += 1;
                    let verdict = receiver.judge_gossip(*author, relay_id);
                    n_accepted += usize::from(verdict == GossipVerdict::Forward);
                }
            }
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(n_forwarded > n_accepted + 60 * 100, "{n_forwarded} {n_accepted}");
    assert_eq!((receiver.is_banned(relay_id), receiver.take_changes()), (false, (vec![], vec![])));
}

#[tokio::test(start_paused = true)]
async fn published_and_relayed_gossip_of_all_authors_is_limited() {
    let guard = guard(None);
    let mut entered = [0; 3];
    let mut passed = [0; 3];
    for _ in 0..10 {
        let author = PeerId::random();
        for (sum, n) in entered.iter_mut().zip(verdicts(&guard, author, author, 2)) {
            *sum += n;
        }
        for (sum, n) in passed.iter_mut().zip(verdicts(&guard, PeerId::random(), author, 2)) {
            *sum += n;
        }
    }
    assert_eq!(entered, [5, 15, 0], "all are read, few are forwarded");
    assert_eq!(passed, [7, 0, 13]);
}

#[tokio::test(start_paused = true)]
async fn author_that_publishes_too_much_is_banned() {
    let (guard, author) = (guard(None), PeerId::random());
    assert_eq!(verdicts(&guard, author, author, 20), [4, 2, 14]);
    assert_eq!((guard.is_banned(author), guard.take_changes().0), (true, vec![author]));
    assert_eq!(
        verdicts(&guard, author, PeerId::random(), 1),
        [0, 0, 1],
        "nor if others relay them"
    );
}

#[tokio::test(start_paused = true)]
async fn peers_allowed_by_name_and_boot_nodes_are_never_banned() {
    let (boot, friend) = (PeerId::random(), PeerId::random());
    let guard = Guard::new(Some([model_peer_id(friend)].into()), [boot], FEW);
    for peer in [boot, friend] {
        (0..100).for_each(|_| guard.offended(peer, Offense::Malformed));
        assert_eq!((guard.is_banned(peer), guard.take_changes()), (false, (vec![], vec![])));
        assert!(guard.is_named(peer) && guard.is_useful(peer));
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_offenses_ban_a_peer_for_a_limited_time() {
    let (guard, peer) = (guard(None), PeerId::random());
    for _ in 0..4 {
        guard.offended(peer, Offense::Malformed);
    }
    assert_eq!((guard.is_banned(peer), guard.take_changes()), (false, (vec![], vec![])));
    for _ in 0..3 {
        guard.offended(peer, Offense::Stalled);
    }
    assert_eq!((guard.is_banned(peer), guard.take_changes()), (true, (vec![peer], vec![])));
    assert!(!guard.is_banned(PeerId::random()));
    tokio::time::advance(BANNED_FOR).await;
    assert_eq!((guard.is_banned(peer), guard.take_changes()), (false, (vec![], vec![peer])));
}

#[tokio::test(start_paused = true)]
async fn one_offense_per_second_is_tolerated() {
    let (guard, peer) = (guard(None), PeerId::random());
    for _ in 0..1000 {
        guard.offended(peer, Offense::Malformed);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(!guard.is_banned(peer));
}

#[tokio::test]
async fn only_allowed_peers_are_admitted_if_any_are_configured() {
    let (friend, other) = (PeerId::random(), PeerId::random());
    let only = guard(Some([model_peer_id(friend)].into()));
    assert_eq!((only.allows(friend), only.allows(other)), (true, false));
    assert!(only.allows_by_name(friend));
    assert_eq!(
        (only.standing(friend), only.standing(other)),
        (Standing::Named, Standing::Stranger)
    );
    only.set_allowed(Some([model_peer_id(other)].into()));
    assert_eq!((only.allows(friend), only.allows(other)), (false, true));
    let everyone = guard(None);
    assert_eq!((everyone.allows(other), everyone.allows_by_name(other)), (true, false));
    assert_eq!(everyone.standing(other), Standing::Unknown);
}

#[tokio::test(start_paused = true)]
async fn least_recently_used_peer_record_is_evicted_at_the_limit() {
    let (guard, first) = (guard(None), PeerId::random());
    let second = PeerId::random();
    for peer in [first, second, first] {
        guard.admits_stream(peer);
    }
    for _ in 0..ACCOUNTS.get() - 1 {
        guard.admits_stream(PeerId::random());
    }
    let has = |peer| guard.state.lock().accounts.contains(&peer);
    assert_eq!((has(first), has(second)), (true, false));
    assert_eq!(guard.state.lock().accounts.len(), ACCOUNTS.get());
    for _ in 0..BANNED_MAX.get() + 10 {
        let peer = PeerId::random();
        (0..6).for_each(|_| guard.offended(peer, Offense::Malformed));
    }
    let (fresh, over) = guard.take_changes();
    assert_eq!((fresh.len(), over.len()), (BANNED_MAX.get() + 10, 10));
    assert_eq!(over, fresh[..10], "the oldest bans are lifted");
    assert_eq!(guard.state.lock().banned.len(), BANNED_MAX.get());
}
