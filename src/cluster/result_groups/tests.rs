use proptest::prelude::*;

use super::*;

fn peer(name: &str) -> PeerId {
    name.parse().unwrap()
}

fn outcome(stdout: &str) -> Outcome {
    Outcome { stdout: stdout.into(), ..Outcome::default() }
}

/// Checks the groups of `outcomes`, written as `stdout peers share`.
#[track_caller]
fn check(outcomes: &[(&str, &str)], want: &[&str]) {
    let groups = group(outcomes.iter().map(|(name, stdout)| (peer(name), outcome(stdout))));
    let got: Vec<String> = groups
        .iter()
        .map(|group| {
            let peers: Vec<_> = group.peers.iter().map(PeerId::as_str).collect();
            format!("{} {} {:.1}", group.outcome.stdout, peers.join(","), group.frequency_percent)
        })
        .collect();
    assert_eq!(got, want);
}

#[test]
fn grouping_no_outcomes_returns_no_groups() {
    check(&[], &[]);
}

#[test]
fn equal_outcomes_are_one_group_of_frequency_100() {
    check(&[("b", "x"), ("a", "x"), ("c", "x")], &["x a,b,c 100.0"]);
}

#[test]
fn most_frequent_outcome_is_first() {
    check(&[("a", "x"), ("b", "y"), ("c", "y")], &["y b,c 66.7", "x a 33.3"]);
}

#[test]
fn groups_of_equal_size_are_ordered_by_their_first_peer() {
    check(&[("c", "a"), ("b", "b"), ("a", "c")], &["c a 33.3", "b b 33.3", "a c 33.3"]);
}

#[test]
fn outcomes_with_different_stderr_or_exit_code_are_separate_groups() {
    let noisy = Outcome { stderr: "!".into(), ..outcome("x") };
    let failed = Outcome { exit_code: 1, ..outcome("x") };
    assert_eq!(
        group([(peer("a"), outcome("x")), (peer("b"), noisy), (peer("c"), failed)]).len(),
        3
    );
}

proptest! {
    #[test]
    fn groups_do_not_depend_on_the_order_of_arrival(
        writers in proptest::collection::vec(0_u8..4, 0..12), seed in any::<u64>(),
    ) {
        let outcomes: Vec<_> = writers
            .iter()
            .zip('a'..)
            .map(|(word, name)| (peer(&name.to_string()), outcome(&word.to_string())))
            .collect();
        let mut shuffled = outcomes.clone();
        shuffled.sort_by_key(|(peer, _)| peer.as_str().bytes().map(|b| seed.rotate_left(u32::from(b))).fold(0_u64, u64::wrapping_add) % 97);
        prop_assert_eq!(group(outcomes), group(shuffled));
    }
}
