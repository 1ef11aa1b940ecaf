use super::*;

fn head(n: usize) -> PeerId {
    format!("head{}", n + 1).replace('0', "A").parse().unwrap()
}

/// Heads 0, 1, … of these standings.
fn credits(standings: &[Standing]) -> Credits {
    let mut credits = Credits::new(0, 0);
    for (n, standing) in standings.iter().enumerate() {
        assert!(credits.join(&head(n), *standing, Instant::now()));
    }
    credits
}

/// Divides `n_slots` of which head n holds `held[n]`, and returns what each is granted.
fn divided(credits: &mut Credits, n_slots: usize, held: &[usize]) -> Vec<usize> {
    let n_held = |peer: &PeerId| (0..held.len()).find(|n| head(*n) == *peer).map_or(0, |n| held[n]);
    credits.divide(n_slots, n_slots, n_held, Instant::now());
    granted(credits, n_slots)
}

fn granted(credits: &Credits, n_slots: usize) -> Vec<usize> {
    let of = |n| credits.find(&head(n), n_slots).unwrap().credits;
    (0..credits.heads.len()).map(of).collect()
}

/// Head `n` wants `slots`, and acknowledges its last grant.
fn want(credits: &mut Credits, n: usize, slots: usize) {
    let generation = credits.find(&head(n), 1).unwrap().generation;
    credits.note_want(&head(n), &Want { slots, generation }, Instant::now());
}

#[tokio::test(start_paused = true)]
async fn a_head_alone_has_all_and_idle_ones_have_equal_parts() {
    assert_eq!(divided(&mut credits(&[Standing::Named]), 10, &[0]), [10]);
    assert_eq!(divided(&mut credits(&[Standing::Named; 3]), 10, &[0; 3]), [4, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn who_wants_less_than_its_share_gets_that_and_the_others_divide_the_rest() {
    let mut credits = credits(&[Standing::Named; 3]);
    for (n, slots) in [(0, 100), (1, 2), (2, 100)] {
        want(&mut credits, n, slots);
    }
    assert_eq!(divided(&mut credits, 10, &[0; 3]), [4, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn the_slot_that_cannot_be_divided_goes_round() {
    let mut credits = credits(&[Standing::Named; 3]);
    let mut sums = [0; 3];
    for _ in 0..30 {
        for n in 0..3 {
            want(&mut credits, n, 9);
        }
        // What is taken from one in this round is given to another in the next, once acknowledged.
        divided(&mut credits, 4, &[0; 3]);
        for n in 0..3 {
            want(&mut credits, n, 9);
        }
        let granted = divided(&mut credits, 4, &[0; 3]);
        assert_eq!(granted.iter().sum::<usize>(), 4);
        for (sum, granted) in sums.iter_mut().zip(granted) {
            *sum += granted;
        }
        credits.next_turn();
    }
    assert_eq!(sums, [40, 40, 40]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_given_to_another_head_once_the_first_has_given_it_back() {
    let mut credits = credits(&[Standing::Named; 2]);
    want(&mut credits, 0, 10);
    want(&mut credits, 1, 0);
    assert_eq!(divided(&mut credits, 10, &[10, 0]), [10, 0]);
    want(&mut credits, 0, 10);
    credits.note_want(&head(1), &Want { slots: 10, generation: 0 }, Instant::now());
    assert_eq!(divided(&mut credits, 10, &[10, 0]), [5, 0], "it may send ten before it knows");
    want(&mut credits, 0, 10);
    assert_eq!(divided(&mut credits, 10, &[10, 0]), [5, 0], "it holds ten");
    assert_eq!(divided(&mut credits, 10, &[7, 0]), [5, 3]);
    assert_eq!(divided(&mut credits, 10, &[4, 3]), [5, 5]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_acknowledged_is_lost_after_a_while_and_what_is_wanted_too() {
    let mut credits = credits(&[Standing::Named; 2]);
    want(&mut credits, 0, 10);
    want(&mut credits, 1, 0);
    divided(&mut credits, 10, &[0, 0]);
    want(&mut credits, 1, 10);
    assert_eq!(divided(&mut credits, 10, &[0, 0]), [5, 0]);
    tokio::time::advance(ACKNOWLEDGED_WITHIN).await;
    assert_eq!(divided(&mut credits, 10, &[0, 0]), [5, 5]);
    tokio::time::advance(WANTED_FOR).await;
    want(&mut credits, 1, 10);
    divided(&mut credits, 10, &[0, 0]);
    tokio::time::advance(ACKNOWLEDGED_WITHIN).await;
    assert_eq!(divided(&mut credits, 10, &[0, 0]), [0, 10], "the first is cut off");
}

#[tokio::test(start_paused = true)]
async fn the_credits_of_a_head_that_is_gone_are_free_at_once() {
    let mut credits = credits(&[Standing::Named; 2]);
    want(&mut credits, 0, 10);
    want(&mut credits, 1, 10);
    assert_eq!(divided(&mut credits, 10, &[0, 0]), [5, 5]);
    credits.retain(|known| *known == head(0));
    assert_eq!(divided(&mut credits, 10, &[0, 0]), [10]);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_wants_everything_gets_its_part_at_most() {
    let mut credits = credits(&[Standing::Named, Standing::Stranger, Standing::Stranger]);
    want(&mut credits, 0, 10);
    want(&mut credits, 1, usize::MAX);
    want(&mut credits, 2, usize::MAX);
    assert_eq!(divided(&mut credits, 12, &[0; 3]), [6, 3, 3]);
    want(&mut credits, 0, 0);
    divided(&mut credits, 12, &[0; 3]);
    want(&mut credits, 0, 0);
    assert_eq!(divided(&mut credits, 12, &[0; 3])[1..], [3, 3], "strangers share half");
    let mut credits = self::credits(&[Standing::Unknown]);
    want(&mut credits, 0, usize::MAX);
    assert_eq!(divided(&mut credits, 8, &[0]), [6]);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_say_what_it_wants_gets_more_as_long_as_it_uses_it() {
    let mut credits = credits(&[Standing::Named; 2]);
    want(&mut credits, 0, 10);
    assert_eq!(divided(&mut credits, 10, &[0, 0]), [10, 0]);
    credits.note_call(&head(1), 0, Instant::now());
    divided(&mut credits, 10, &[0, 0]);
    want(&mut credits, 0, 10);
    assert_eq!(divided(&mut credits, 10, &[0, 0]), [9, 1]);
    want(&mut credits, 0, 10);
    let mut n_held = 1;
    for _ in 0..10 {
        divided(&mut credits, 10, &[5, n_held]);
        want(&mut credits, 0, 10);
        n_held = divided(&mut credits, 10, &[5, n_held])[1];
    }
    assert_eq!(n_held, 5);
}

#[tokio::test(start_paused = true)]
async fn heads_past_the_most_are_not_taken_in() {
    let mut credits = credits(&vec![Standing::Named; HEADS_MAX]);
    assert!(!credits.join(&head(HEADS_MAX), Standing::Named, Instant::now()));
    assert!(credits.join(&head(0), Standing::Named, Instant::now()));
    assert_eq!(divided(&mut credits, 10, &[0; HEADS_MAX]).iter().sum::<usize>(), 10);
}

/// The longest time for which one of the first `n_live` of three heads has no credit, where all want the one
/// slot for `time`. The others acknowledge nothing.
async fn longest_wait(credits: &mut Credits, n_live: usize, time: Duration) -> Duration {
    const STEP: Duration = Duration::from_millis(50);
    let mut waits = vec![Duration::ZERO; n_live];
    let mut longest = Duration::ZERO;
    let end = Instant::now() + time;
    while Instant::now() < end {
        for _ in 0..5 {
            for n in 0..n_live {
                want(credits, n, 9);
            }
            let granted = divided(credits, 1, &[0; 3]);
            for (wait, granted) in waits.iter_mut().zip(granted) {
                *wait = if granted > 0 { Duration::ZERO } else { *wait + STEP };
                longest = longest.max(*wait);
            }
            tokio::time::advance(STEP).await;
        }
        credits.next_turn();
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn a_head_that_acknowledges_nothing_keeps_the_others_waiting_once() {
    let mut credits = credits(&[Standing::Named; 3]);
    want(&mut credits, 2, 9);
    let wait = longest_wait(&mut credits, 2, Duration::from_secs(5)).await;
    assert!(wait < ACKNOWLEDGED_WITHIN + Duration::from_secs(1), "{wait:?}");
    let wait = longest_wait(&mut credits, 2, Duration::from_secs(30)).await;
    assert!(wait < Duration::from_secs(1), "{wait:?}");
    let wait = longest_wait(&mut credits, 3, Duration::from_secs(30)).await;
    assert!(wait < Duration::from_secs(1), "once it answers, it has its turn again: {wait:?}");
}
