use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Returns a deterministic generator of random-looking numbers.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn free(completion_ms: u64, weight: u64) -> Candidate {
    let completion = Duration::from_millis(completion_ms);
    Candidate { completion, is_free: true, weight, last_turn: 0 }
}

fn busy(completion_ms: u64, weight: u64) -> Candidate {
    Candidate { is_free: false, ..free(completion_ms, weight) }
}

/// Returns how many of 10 000 orders candidate `idx` gets.
fn share_of(idx: usize, candidates: &[Candidate], n: usize) -> usize {
    let mut draw = numbers(7);
    let orders = (0..10_000).filter_map(|_| choose(candidates, n, &mut draw));
    orders.filter(|chosen| chosen.contains(&idx)).count()
}

#[test]
fn slow_worker_gets_no_orders_while_fast_workers_are_free_or_soon_will_be() {
    let fast = [free(2, 100), free(3, 100), free(2, 100)];
    assert_eq!(share_of(3, &[fast[0], fast[1], fast[2], free(140, 100)], 1), 0);
    let taken = [busy(4, 100), busy(4, 100), busy(4, 100), free(140, 100)];
    assert_eq!(choose(&taken, 1, numbers(1)), None, "waiting is faster");
    let jammed = [busy(900, 100), busy(900, 100), busy(900, 100), free(140, 100)];
    assert_eq!(choose(&jammed, 1, numbers(1)), Some(vec![3]));
    assert_eq!(choose(&[fast[0], free(140, 100)], 2, numbers(1)).map(|c| c.len()), Some(2));
}

#[test]
fn newcomer_gets_few_orders_while_trusted_workers_are_available() {
    let trusted = [free(2, 200), free(2, 200), free(2, 200)];
    let newcomer = free(2, 1);
    let share = share_of(3, &[trusted[0], trusted[1], trusted[2], newcomer], 1);
    assert!(share < 10, "{share} of 10 000");
    let many = [free(2, 40), free(2, 9), free(2, 9), free(2, 9)];
    assert!((1..1000).contains(&share_of(1, &many, 1)), "newcomers can earn trust");
    let taken = [busy(4, 200), busy(4, 200), busy(4, 200), newcomer];
    assert_eq!(choose(&taken, 1, numbers(1)), None, "trusted workers will soon be free");
    let jammed = [busy(2000, 200), busy(2000, 200), busy(2000, 200), newcomer];
    assert_eq!(
        choose(&jammed, 1, numbers(1)),
        Some(vec![3]),
        "waiting for trusted workers takes too long"
    );
    let all_new = [free(2, 1), free(2, 1)];
    assert!(share_of(0, &all_new, 1) > 4000);
}

#[test]
fn newcomers_are_rarely_the_majority_of_the_chosen_workers() {
    let mut candidates = vec![free(2, 200); 3];
    candidates.extend([free(2, 1); 3]);
    let mut draw = numbers(3);
    let n_forged = (0..10_000)
        .filter_map(|_| choose(&candidates, 3, &mut draw))
        .filter(|chosen| chosen.iter().filter(|idx| **idx >= 3).count() >= 2)
        .count();
    assert!(n_forged <= 10, "{n_forged} of 10 000");
}

#[test]
fn fast_run_does_not_lower_the_expected_time_below_the_usual_time() {
    let usual = Some(RunTime::first(Duration::from_millis(100)));
    let load = |own_ms, n_ahead| Load {
        own: Some((RunTime::first(Duration::from_millis(own_ms)), Duration::ZERO)),
        oldest: Duration::ZERO,
        n_ahead,
        n_slots: 10,
    };
    assert_eq!(expect_completion(load(1, 0), usual), Duration::from_millis(100));
    assert_eq!(expect_completion(load(300, 0), usual), Duration::from_millis(300));
    assert_eq!(expect_completion(load(100, 5), usual), Duration::from_millis(150));
    let stalled = Load { oldest: Duration::from_secs(9), ..load(1, 1) };
    assert!(
        expect_completion(stalled, usual) >= Duration::from_secs(9),
        "it has not responded for 9 s"
    );
}

#[test]
fn spare_gets_the_order_after_a_multiple_of_the_usual_time() {
    let mut steady = RunTime::first(Duration::from_secs(1));
    for _ in 0..100 {
        steady = steady.after(Duration::from_secs(1));
    }
    assert!(steady.hedge_after() < Duration::from_millis(3_100), "{steady:?}");
    assert!(steady.hedge_after() >= Duration::from_secs(3) - Duration::from_millis(1));
    let fast = RunTime::first(Duration::from_millis(1));
    assert_eq!(fast.hedge_after(), HEDGE_AFTER_MIN);
}

/// Simulates one second with workers of `(slots, run_ms)` and `n_clients`, each of which sends its next
/// order after the previous one has completed. Returns the number of completed orders.
fn simulate(workers: &[(usize, u64)], n_clients: usize) -> usize {
    let mut draw = numbers(11);
    let mut taken = vec![0_usize; workers.len()];
    let mut own: Vec<Option<RunTime>> = vec![None; workers.len()];
    let (mut usual, mut turn) = (None::<RunTime>, 0);
    let mut turns = vec![0; workers.len()];
    let mut running: Vec<(u64, u64, usize)> = Vec::new();
    let (mut n_waiting, mut n_done) = (n_clients, 0);
    for now_us in (0..1_000_000_u64).step_by(250) {
        for (started, _, idx) in running.extract_if(.., |(_, end, _)| *end <= now_us) {
            let elapsed = Duration::from_micros(now_us - started);
            own[idx] = Some(own[idx].map_or(RunTime::first(elapsed), |t| t.after(elapsed)));
            usual = Some(usual.map_or(RunTime::first(elapsed), |t| t.after(elapsed)));
            taken[idx] -= 1;
            n_waiting += 1;
            n_done += 1;
        }
        while n_waiting > 0 {
            let candidates: Vec<Candidate> = (0..workers.len())
                .map(|idx| {
                    let oldest = running.iter().filter(|(_, _, of)| *of == idx);
                    let oldest = oldest.map(|(started, ..)| now_us - started).max().unwrap_or(0);
                    let load = Load {
                        own: own[idx].map(|own| (own, Duration::ZERO)),
                        oldest: Duration::from_micros(oldest),
                        n_ahead: taken[idx],
                        n_slots: workers[idx].0,
                    };
                    Candidate {
                        completion: expect_completion(load, usual),
                        is_free: taken[idx] < workers[idx].0,
                        weight: 100,
                        last_turn: turns[idx],
                    }
                })
                .collect();
            let Some(chosen) = choose(&candidates, 1, &mut draw) else { break };
            turn += 1;
            turns[chosen[0]] = turn;
            taken[chosen[0]] += 1;
            running.push((now_us, now_us + workers[chosen[0]].1 * 1000, chosen[0]));
            n_waiting -= 1;
        }
    }
    n_done
}

#[test]
fn slow_worker_with_many_slots_does_not_reduce_total_throughput() {
    let fast = [(10, 2), (10, 2), (10, 2)];
    let n_without = simulate(&fast, 32);
    let n_with = simulate(&[fast[0], fast[1], fast[2], (64, 140)], 32);
    assert!(n_with * 10 >= n_without * 9, "{n_with} with it, {n_without} without");
}

prop_compose! {
    fn candidates()(
        parts in prop::collection::vec((0_u64..500, any::<bool>(), 1_u64..300, 0_u64..9), 0..20),
    ) -> Vec<Candidate> {
        let candidates = parts.into_iter().map(|(ms, is_free, weight, last_turn)| Candidate {
            completion: Duration::from_millis(ms), is_free, weight, last_turn,
        });
        candidates.collect()
    }
}

proptest! {
    #[test]
    fn chosen_workers_are_free_distinct_and_as_many_as_requested(
        candidates in candidates(), n in 1_usize..8, seed: u64,
    ) {
        if let Some(chosen) = choose(&candidates, n, numbers(seed)) {
            let distinct: BTreeSet<usize> = chosen.iter().copied().collect();
            prop_assert_eq!((chosen.len(), distinct.len()), (n, n));
            prop_assert!(chosen.iter().all(|idx| candidates[*idx].is_free));
        }
    }

    #[test]
    fn order_waits_only_if_there_are_fewer_idle_workers_than_it_needs(
        n_workers in 1_usize..20, n in 1_usize..20, seed: u64,
    ) {
        let alike = vec![free(5, 10); n_workers];
        prop_assert_eq!(choose(&alike, n, numbers(seed)).is_some(), n <= n_workers);
    }

    #[test]
    fn chosen_worker_is_at_most_twice_as_slow_as_the_best_trusted_worker(
        candidates in candidates(), seed: u64,
    ) {
        if let Some(chosen) = choose(&candidates, 1, numbers(seed)) {
            let heaviest = candidates.iter().map(|c| c.weight).max().unwrap();
            let trusted = candidates.iter().filter(|c| !is_newcomer(c.weight, heaviest));
            let best = trusted.map(|c| c.completion).min().unwrap();
            let limit = best.max(COMPLETION_MIN) * NEAR_FACTOR;
            prop_assert!(candidates[chosen[0]].completion <= limit);
        }
    }
}
