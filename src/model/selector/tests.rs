use proptest::prelude::*;

use super::*;

fn attributes() -> BTreeMap<String, String> {
    let pairs = [("zone", "a"), ("gpu", "none"), ("tier", "hot"), ("empty", "")];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[track_caller]
fn check(text: &str, want: bool) {
    let selector: Selector = text.parse().unwrap();
    assert_eq!(selector.matches(&attributes()), want, "{text}");
    assert_eq!(selector.to_string().parse(), Ok(selector), "{text} round-trips");
}

#[test]
fn node_fits_a_selector_only_if_all_requirements_hold() {
    check("zone=a", true);
    check("zone==a", true);
    check(" zone = a , tier=hot", true);
    check("zone=a,tier=cold", false);
    check("zone!=a", false);
    check("zone!=b", true);
    check("zone in (a,b)", true);
    check("zone in (b, c),tier", false);
    check("zone notin (b,c)", true);
    check("zone notin (a,c)", false);
    check("zone,!old", true);
    check("!zone", false);
    check("empty=", true);
    check("zone=", false);
}

#[test]
fn attributes_with_spaces_in_the_name_or_operators_cannot_be_named() {
    for pair in ["zone=a", "gpu=NVIDIA A100", "x=ü", "empty="] {
        assert!(Selector::can_name(pair), "{pair}");
    }
    for pair in
        ["x y=ü", "zone", "a!=b", "cpu=Intel(R)", "a=b=c", "zone in (a)", "=a", "!a", "x=a,b"]
    {
        assert!(!Selector::can_name(pair), "{pair}");
    }
}

#[test]
fn negated_requirement_accepts_nodes_without_the_attribute() {
    check("old=a", false);
    check("old!=a", true);
    check("old in (a)", false);
    check("old notin (a)", true);
    check("old", false);
}

#[test]
fn invalid_selectors_are_rejected() {
    for text in [
        "",
        ",",
        "zone=a,",
        "=a",
        "!=a",
        "!",
        "zone in a",
        "zone in (a",
        "zone of (a)",
        "in (a)",
        "a b",
        "zone=a=b",
        "zone=\u{1b}[2J",
        "zone=(a)",
    ] {
        assert!(text.parse::<Selector>().is_err(), "{text:?}");
    }
    let long = format!("zone={}", "a".repeat(SELECTOR_BYTES_MAX));
    assert!(long.parse::<Selector>().is_err(), "it is bounded");
}

proptest! {
    #[test]
    fn parsing_any_text_as_a_selector_does_not_panic(text in "[a-z!=,() ]{0,40}") {
        if let Ok(selector) = text.parse::<Selector>() {
            let written = selector.to_string();
            prop_assert_eq!(written.parse::<Selector>().map(|again| again.to_string()), Ok(written));
        }
    }
}
