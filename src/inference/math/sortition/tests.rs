use proptest::prelude::*;

use super::*;

const PLACES: RolePlaces = RolePlaces { n_max: 32, newcomer_share: 0.25 };

fn candidate(idx: usize, score: f64, record: Record) -> Candidate {
    let worker = format!("allo1worker{idx:04}").parse().unwrap();
    let arrival = i64::try_from(idx).unwrap();
    Candidate { worker, score, record, arrival, is_far: false }
}

/// Returns `n_newcomers` and `n_scored` candidates, newcomers first.
fn crowd(n_newcomers: usize, n_scored: usize) -> Vec<Candidate> {
    let newcomers = (0..n_newcomers).map(|idx| candidate(idx, -1.0, Record::Newcomer));
    let scored = (n_newcomers..n_newcomers + n_scored).map(|idx| {
        let score = f64::from(u32::try_from(idx).unwrap()) / 1000.0;
        candidate(idx, score, Record::Scored)
    });
    newcomers.chain(scored).collect()
}

fn count(candidates: &[Candidate], active: &BTreeSet<Address>, record: Record) -> usize {
    let of_record = candidates.iter().filter(|candidate| candidate.record == record);
    of_record.filter(|candidate| active.contains(&candidate.worker)).count()
}

#[track_caller]
fn check(n_newcomers: usize, n_scored: usize, want: [usize; 2]) {
    let candidates = crowd(n_newcomers, n_scored);
    let active = choose_active(candidates.clone(), PLACES);
    let got = [Record::Newcomer, Record::Scored].map(|record| count(&candidates, &active, record));
    assert_eq!(got, want, "{n_newcomers} newcomers, {n_scored} scored");
}

#[test]
fn newcomers_get_at_most_a_quarter_of_the_active_places() {
    check(1024, 3, [1, 3]);
    check(1024, 9, [3, 9]);
    check(1024, 24, [8, 24]);
    check(1024, 40, [0, 32]);
    check(2, 3, [1, 3]);
    check(0, 3, [0, 3]);
    check(40, 0, [32, 0]);
}

#[test]
fn newcomer_with_a_higher_score_replaces_the_lowest_actor() {
    let mut candidates = crowd(1, 40);
    candidates[0].score = 0.01;
    let active = choose_active(candidates.clone(), PLACES);
    assert_eq!(count(&candidates, &active, Record::Newcomer), 1);
    assert_eq!(active.len(), 32);
    assert!(!active.contains(&candidates[9].worker), "the lowest of the 32 best is inactive");
}

#[test]
fn candidates_with_equal_scores_are_ordered_by_trust_then_by_time() {
    let mut candidates: Vec<_> = (0..40).map(|idx| candidate(idx, 0.0, Record::Newcomer)).collect();
    candidates[39].record = Record::Trusted;
    let active = choose_active(candidates.clone(), PLACES);
    assert!(active.contains(&candidates[39].worker) && active.contains(&candidates[0].worker));
    assert_eq!(active.len(), 2, "one of four, but at least one");
}

#[test]
fn newcomer_with_an_outlying_value_is_active_only_if_all_candidates_are_newcomers() {
    let mut candidates = crowd(1, 3);
    candidates[0].is_far = true;
    assert_eq!(choose_active(candidates.clone(), PLACES).len(), 3);
    candidates[1].is_far = true;
    assert_eq!(choose_active(candidates.clone(), PLACES).len(), 3, "scored, not a newcomer");
    candidates.truncate(1);
    assert_eq!(choose_active(candidates, PLACES).len(), 1);
}

#[test]
fn score_of_a_newcomer_starts_below_all_scores_and_moves_to_a_quantile() {
    assert!((initial_score(&[]) - 0.0).abs() < 1e-12);
    assert!((initial_score(&[0.5]) - 0.5).abs() < 1e-12);
    let scores = [0.1, 0.2, 0.3];
    let mut score = initial_score(&scores);
    assert!((score + 0.1).abs() < 1e-12);
    for _ in 0..100 {
        score = crate::math::statistics::moving_average(Some(score), 0.15, 0.1);
    }
    assert!((score - 0.15).abs() < 1e-4);
}

prop_compose! {
    fn candidates()(
        all in prop::collection::vec((-3.0..3.0_f64, 0..3_u8, prop::bool::ANY), 0..120)
    ) -> Vec<Candidate> {
        let made = all.into_iter().enumerate().map(|(idx, (score, record, is_far))| {
            let record = [Record::Newcomer, Record::Scored, Record::Trusted][usize::from(record)];
            Candidate { is_far, ..candidate(idx, score, record) }
        });
        made.collect()
    }
}

proptest! {
    #[test]
    fn choice_of_active_actors_does_not_depend_on_their_order(
        candidates in candidates(), n_max in 1..40_usize, newcomer_share in 0.0..=1.0_f64,
    ) {
        let places = RolePlaces { n_max, newcomer_share };
        let reversed = candidates.iter().rev().cloned().collect();
        prop_assert_eq!(choose_active(candidates, places), choose_active(reversed, places));
    }

    #[test]
    fn all_active_places_are_filled_and_not_exceeded(
        candidates in candidates(), n_max in 1..40_usize, newcomer_share in 0.0..=1.0_f64,
    ) {
        let active = choose_active(candidates.clone(), RolePlaces { n_max, newcomer_share });
        prop_assert!(active.len() <= n_max);
        let n_known = candidates.iter().filter(|of| of.record != Record::Newcomer).count();
        let n_certain = if n_known == 0 { candidates.len() } else { n_known };
        prop_assert!(active.len() >= n_certain.min(n_max));
    }

    #[test]
    fn active_newcomers_do_not_exceed_their_share(
        candidates in candidates(), n_max in 4..40_usize, newcomer_share in 0.0..=0.5_f64,
    ) {
        let active = choose_active(candidates.clone(), RolePlaces { n_max, newcomer_share });
        let n_newcomers = count(&candidates, &active, Record::Newcomer);
        let n_known = candidates.iter().filter(|of| of.record != Record::Newcomer).count();
        let n_active = crate::math::statistics::count((n_newcomers + n_known).min(n_max));
        let is_within = crate::math::statistics::count(n_newcomers) <= newcomer_share * n_active;
        prop_assert!(n_known == 0 || n_newcomers <= 1 || is_within);
    }

    #[test]
    fn inactive_actor_that_is_no_newcomer_has_no_higher_score_than_active_actors(
        candidates in candidates(), n_max in 1..40_usize,
    ) {
        let active = choose_active(candidates.clone(), RolePlaces { n_max, newcomer_share: 0.25 });
        let lowest = candidates.iter().filter(|of| active.contains(&of.worker));
        let lowest = lowest.map(|of| of.score).fold(f64::INFINITY, f64::min);
        let mut resting = candidates.iter().filter(|of| !active.contains(&of.worker));
        prop_assert!(resting.all(|of| of.record == Record::Newcomer || of.score <= lowest));
    }
}

#[test]
fn score_of_an_absent_actor_moves_to_the_initial_score() {
    // The chain's example: four missed epochs reduce the score 300 to 265.61 if the initial score is
    // 200.
    assert!((penalized(300.0, 200.0, 0.1, 4) - 265.61).abs() < 1e-9);
    assert!((penalized(300.0, 200.0, 0.1, 0) - 300.0).abs() < 1e-9);
}

#[test]
fn epochs_since_the_last_submission_are_counted_as_missed() {
    // As in the chain's table of cases, in which an epoch has 10 blocks and the nonce is 100.
    let cases = [(95, 0), (105, 0), (85, 1), (55, 4), (90, 0), (60, 3)];
    for (last, want) in cases {
        assert_eq!(missed_epochs(last, 100, 10), want, "{last}");
    }
}
