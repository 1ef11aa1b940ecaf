//! Reasons that the screen shows when it refuses an action: no head, a wrong key, a limit, no
//! selection.

use super::*;
use crate::event::{DataEvent, DatasetSearch, InferenceEvent};

/// Brings a screen into a state in which it refuses an action.
type Cause = fn(&mut Harness);

/// Returns the failure of a request that a service refuses with `status`.
fn refused(what: &str, status: u16) -> Failure {
    let why = format!("the service answered {status}");
    Failure { status: Some(status), ..Failure::new(what, why, "") }
}

#[test]
fn refusals_are_shown_with_reason_and_advice() {
    let cases: [(&str, Cause, &[&str]); 13] = [
        (
            "no head",
            |screen| {
                screen.use_heads(&[]);
                screen.press("e ctrl-r");
            },
            &["no head is known", "name one with --head, or start one (1, then a)"],
        ),
        (
            "a wrong API key",
            |screen| {
                let result = Err(refused("list the datasets", 401));
                screen
                    .take(Event::Data(DataEvent::Datasets { search: DatasetSearch::ALL, result }));
            },
            &["failed to list the datasets", "the service answered 401; press P to enter a key"],
        ),
        (
            "a wrong token",
            |screen| {
                let next = "correct the token in the profile".to_owned();
                let why = Failure { next, ..refused("list the nodes", 401) };
                screen.take(Event::Nodes(screen.head(), Err(why), Duration::ZERO));
            },
            &["failed to list the nodes", "correct the token in the profile"],
        ),
        (
            "a rate limit",
            |screen| {
                let retry_after = Some(Duration::from_secs(8));
                let why = Failure { retry_after, ..refused("list the topics", 429) };
                screen.take(Event::Inference(InferenceEvent::Topics(Err(why))));
            },
            &["429 · retry 8s"],
        ),
        (
            "a rate limit of the weights of a bundle",
            |screen| {
                let retry_after = Some(Duration::from_secs(8));
                let why = Failure { retry_after, ..refused("read the leaderboard", 429) };
                let topic = model::topic::TopicId::new(1).unwrap();
                let event = InferenceEvent::Leaderboard { topic, result: Err(why) };
                screen.take(Event::Inference(event));
            },
            &["429 · retry 8s"],
        ),
        (
            "too many runs",
            |screen| (0..17).for_each(|_| screen.press("e ctrl-r")),
            &["16 runs are already waiting", "^C cancels them"],
        ),
        ("nothing to copy", |screen| screen.press("0 y"), &["nothing to copy here"]),
        ("nothing to export", |screen| screen.press("4 x"), &["nothing to export yet"]),
        ("nothing to repeat", |screen| screen.press("1 tab R"), &["no run yet"]),
        ("nothing to compare", |screen| screen.press("1 d"), &["no run yet"]),
        ("no output", |screen| screen.press("2 esc o"), &["no run yet"]),
        ("nothing to save", |screen| screen.press("1 tab tab x"), &["nothing to save yet"]),
        ("nothing to page", |screen| screen.press("1 tab tab |"), &["nothing to page through yet"]),
    ];
    for (name, cause, wanted) in cases {
        let mut screen = Harness::quiet((160, 45));
        println!("{name}");
        cause(&mut screen);
        screen.shows(wanted);
    }
}
