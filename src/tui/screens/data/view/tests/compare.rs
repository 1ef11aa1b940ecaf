//! Comparison of datasets.

use super::*;
use crate::app;
use crate::event::Event;
use crate::keymap::Chord;
use crate::widget::symbols::Symbols;

/// Returns five-minute buckets of a random walk from `price`, latest first.
fn walk(seed: u64, price: f64) -> Vec<Bucket> {
    let (mut seed, mut price) = (seed, price);
    let step = price / 200.0;
    let newest = Resolution::FiveMinutes.bucket_start(now());
    let mut buckets: Vec<_> = (0..240_u32)
        .map(|n| {
            let open = price;
            price += (noise(&mut seed) - 0.5) * step;
            let (high, low) = (open.max(price), open.min(price));
            let timestamp = newest - Duration::from_mins(5) * (239 - n);
            Bucket { timestamp, open, high, low, close: price, volume: 1.0, count: 5 }
        })
        .collect();
    buckets.reverse();
    buckets
}

/// Adds the charted dataset to the comparison, selects the next one and loads `buckets` of it.
fn compare_with_next(state: &mut state::State, buckets: Vec<Bucket>) {
    state.data.act(Action::Compare, now());
    let effects = effects_of(state, |state| state.data.act(Action::Down, now()));
    give(state, &effects, Rows::Buckets(buckets));
}

/// Returns the Data screen with `n` compared datasets.
fn comparing(n: usize) -> state::State {
    let mut state = with_buckets(opened("synthetic-btc"));
    for (seed, price) in [(3, 20.0), (4, 60.0), (5, 3_000.0)].into_iter().take(n - 1) {
        compare_with_next(&mut state, walk(seed, price));
    }
    state
}

/// Returns the query of `effects` for rows of dataset 1.
fn first_query(effects: &[Effect]) -> crate::event::RowsQuery {
    let query = effects.iter().find_map(|effect| match effect {
        Effect::LoadRows(query) if query.dataset == id(1) => Some(*query),
        _ => None,
    });
    query.unwrap()
}
/// Returns the row with the legend.
fn legend(state: &state::State, width: u16, height: u16) -> String {
    let shown = text(state, width, height);
    let line = shown.lines().find(|line| line.contains("● syn") && line.contains('%'));
    line.unwrap_or_else(|| panic!("{shown}")).to_owned()
}

#[test]
fn two_datasets_are_drawn_with_their_spread_and_correlation() {
    let mut state = comparing(2);
    check("compare_120x30", &state, 120, 30);
    check("compare_list_80x22", &state, 80, 22);
    state.data.act(Action::NextPane, now());
    check("compare_80x22", &state, 80, 22);
    let last = legend(&state, 120, 30);
    for _ in 0..30 {
        state.data.act(Action::Earlier, now());
    }
    assert_ne!(legend(&state, 120, 30), last, "the values are those at the crosshair");
}

#[test]
fn four_datasets_are_drawn_without_a_spread() {
    let mut state = comparing(4);
    check("compare_four_120x30", &state, 120, 30);
    state.data.act(Action::NextPane, now());
    check("compare_four_58x18", &state, 58, 18);
    let shown = text(&state, 160, 43);
    assert!(!shown.contains("spread") && !shown.contains("MA 20"), "{shown}");
}

#[test]
fn comparison_is_drawn_at_any_size_without_panic() {
    for mut state in [comparing(2), comparing(4)] {
        for _ in 0..2 {
            for width in (0..200).step_by(13) {
                for height in (0..60).step_by(7) {
                    drawn(&state, width, height, theme::Name::Mono);
                }
            }
            state.data.act(Action::NextPane, now());
        }
    }
}

#[test]
fn legend_describes_datasets_without_a_line() {
    let mut state = comparing(2);
    let effects = effects_of(&mut state, |state| state.data.act(Action::Finer, now()));
    let rows = newest_first(loads(300, 9));
    let effects = effects_of(&mut state, |state| give(state, &effects, rows));
    let legend = |state: &state::State| {
        let shown = text(state, 160, 43);
        let line = shown.lines().find(|line| line.contains("spread —  corr —"));
        line.unwrap_or_else(|| panic!("{shown}")).to_owned()
    };
    assert!(legend(&state).contains("synthetic-btc loading"), "{}", legend(&state));
    let query = first_query(&effects);
    let respond = |state: &mut state::State, result| {
        state.data.on(DataEvent::Rows { query, result }, now());
    };
    respond(&mut state, Err(Failure::default()));
    assert!(legend(&state).contains("synthetic-btc unavailable"), "{}", legend(&state));
    let rows = bars(300, 3, 0.0);
    let page = RowsPage { rows: newest_first(rows), next: None, count: None };
    respond(&mut state, Ok(page));
    assert!(legend(&state).contains("synthetic-btc not comparable"), "{}", legend(&state));
}

#[test]
fn compared_lines_have_different_colors_and_ascii_symbols() {
    let state = comparing(4);
    for depth in [Depth::TrueColor, Depth::Indexed256, Depth::Ansi16] {
        let theme = Theme::new(theme::Name::Dark, depth);
        let (mut buf, _) = harness::drawn_by(draw, &state, (160, 43), &theme);
        for color in 0..4 {
            let is_line = |cell: &&buffer::Cell| {
                cell.symbol().chars().all(|it| ('\u{2801}'..='\u{28ff}').contains(&it))
            };
            let style = theme.series(color);
            let n_cells =
                buf.content.iter().filter(is_line).filter(|it| Some(it.fg) == style.fg).count();
            assert!(n_cells > 10, "line {color} has {n_cells} cells");
        }
        Symbols::Ascii.apply(&mut buf);
        let shown = harness::framed_text(&buf);
        assert!(shown.contains("* synthetic-btc "), "{shown}");
        let chart = |line: &str| line.chars().skip(60).take(90).all(|letter| letter.is_ascii());
        assert!(shown.lines().all(chart), "{shown}");
    }
}

/// Returns the text of the latest notice.
fn notice(state: &state::State) -> Option<&str> {
    state.notices.iter().next().map(|notice| notice.text.as_str())
}

#[test]
fn compare_key_marks_the_charted_dataset_and_shows_the_next_step() {
    let mut state = with_buckets(opened("synthetic-btc"));
    let press = || Event::Key(Chord::named("d").unwrap());
    app::update(&mut state, press());
    let next = "synthetic-btc will be compared with the dataset you select";
    assert_eq!(notice(&state), Some(next));
    assert!(text(&state, 120, 30).contains("◆synthetic-btc"));
    state.notices.clear();
    app::update(&mut state, press());
    assert!(state.data.compared.is_empty() && !text(&state, 120, 30).contains('◆'));
    let mut state = comparing(4);
    app::update(&mut state, press());
    assert_eq!(notice(&state), Some("no more than 3 datasets are compared with another"));
    assert_eq!(state.data.compared.len(), 3);
}

#[test]
fn dataset_that_is_gone_leaves_the_comparison_with_a_notice() {
    let mut state = comparing(2);
    let effects = effects_of(&mut state, |state| state.data.act(Action::Refresh, now()));
    let gone = Failure { status: Some(404), ..Failure::default() };
    let rows = DataEvent::Rows { query: first_query(&effects), result: Err(gone) };
    app::update(&mut state, Event::Data(rows));
    assert_eq!(notice(&state), Some("synthetic-btc is no longer compared"));
    assert!(!text(&state, 120, 30).contains("spread"));
}
