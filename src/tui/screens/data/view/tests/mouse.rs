//! Mouse input on the Data screen.

use super::*;
use crate::app;
use crate::event::Event;
use crate::local::Addresses;
use crate::screens::update::connect;
use crate::view::Tier;

/// Size of the area between header and footer.
const SIZE: (u16, u16) = (160, 43);

/// Returns the Data screen with five-minute candles.
fn charted() -> state::State {
    let mut state = with_buckets(opened("synthetic-btc"));
    state.size = SIZE;
    state
}

fn hits(state: &state::State) -> Hits {
    harness::drawn_by(draw, state, SIZE, &Theme::new(theme::Name::Dark, Depth::TrueColor)).1
}

/// Clicks on `text` where it is first drawn.
fn click(state: &mut state::State, text: &str) {
    let shown = self::text(state);
    let (row, line) =
        shown.lines().enumerate().find(|(_, line)| line.contains(text)).expect("the text");
    let column = line.split(text).next().unwrap().chars().count();
    let (column, row) = (u16::try_from(column).unwrap(), u16::try_from(row).unwrap());
    click_at(state, column, row);
}

fn click_at(state: &mut state::State, column: u16, row: u16) {
    let target = hits(state).target_at(column, row).expect("a target");
    app::update(state, Event::Click(target));
}

/// Turns the mouse wheel over the middle of `pane`.
fn wheel(state: &mut state::State, pane: Pane, n_rows: i32) {
    let theme = Theme::new(theme::Name::Dark, Depth::TrueColor);
    let scratch = Hits::default();
    let frame = Frame { state, theme: &theme, tier: Tier::Huge, hits: &scratch };
    let places = Places::new(Rect::new(0, 0, SIZE.0, SIZE.1), frame);
    let place = match pane {
        Pane::List => places.list,
        Pane::Chart => places.chart,
        Pane::Tape => places.tape,
    };
    let (column, row) = (place.x + place.width / 2, place.y + place.height / 2);
    let target = hits(state).pane_at(column, row).expect("a pane");
    app::update(state, Event::Wheel(target, n_rows));
}

fn text(state: &state::State) -> String {
    super::text(state, SIZE.0, SIZE.1)
}

#[test]
fn wheel_zooms_the_chart_and_scrolls_the_tape_without_changing_the_dataset() {
    let mut state = charted();
    let (selected, zoom) = (state.data.selected, state.data.zoom);
    wheel(&mut state, Pane::Chart, 3);
    let wider = state.data.zoom;
    assert_eq!(wider, zoom.out(false, state.data.resolutions()));
    wheel(&mut state, Pane::Chart, -3);
    assert_eq!(state.data.zoom, zoom);
    wheel(&mut state, Pane::Tape, 3);
    assert_eq!(state.data.n_tape_above(), 3);
    assert!(text(&state).contains("3 rows above · f newest"), "{}", text(&state));
    wheel(&mut state, Pane::Tape, -9);
    assert_eq!(state.data.tape_top, None, "the latest rows again");
    wheel(&mut state, Pane::List, 3);
    assert_eq!(state.data.selected, selected);
}

#[test]
fn scrolled_tape_does_not_move_when_rows_arrive() {
    let mut state = opened("cpu");
    state.size = SIZE;
    wheel(&mut state, Pane::Tape, 3);
    let top = state.data.tape_top.unwrap();
    let row = loads(1, 9).pop().unwrap();
    let row = NamedRow { timestamp: now() + Duration::from_secs(1), ..row };
    let dataset = state.data.selected.unwrap();
    state.data.on(DataEvent::Stream { dataset, news: StreamEvent::Item(vec![row]) }, now());
    assert_eq!((state.data.tape_top, state.data.n_tape_above()), (Some(top), 4));
}

#[test]
fn click_puts_the_crosshair_on_the_candle() {
    for mut state in [charted(), opened("cpu")] {
        state.size = SIZE;
        click_at(&mut state, 120, 20);
        let time = state.data.crosshair.expect("a crosshair");
        let hits = hits(&state);
        assert_eq!(hits.target_at(120, 20), Some(Target::Time(time)));
        let (left, right) = (hits.target_at(100, 20), hits.target_at(140, 20));
        let (Some(Target::Time(left)), Some(Target::Time(right))) = (left, right) else {
            panic!("{left:?} {right:?}");
        };
        assert!(left < time && time < right);
    }
}

#[test]
fn click_on_a_setting_above_the_chart_changes_the_setting() {
    let mut state = charted();
    let indicators = state.data.indicators;
    click(&mut state, "heikin");
    assert_eq!(state.data.kind, crate::screens::data::state::zoom::ChartKind::Heikin);
    click(&mut state, "MA 20");
    assert_ne!(state.data.indicators, indicators);
    click(&mut state, "1h 90d");
    assert_eq!(state.data.chart.resolution(), Resolution::Hour);
}

#[test]
fn click_on_a_column_title_sorts_the_list() {
    let mut state = charted();
    let names = |state: &state::State| -> Vec<String> {
        state.data.list().iter().map(|dataset| dataset.name.clone()).collect()
    };
    let selected = state.data.selected;
    click(&mut state, "NAME  ");
    let sorted = ["cpu", "memory", "synthetic-btc", "synthetic-eth-perpetual-swap"];
    assert_eq!(names(&state), sorted);
    assert!(text(&state).contains("4 · NAME ▾"), "{}", text(&state));
    click(&mut state, "NAME  ");
    assert_eq!(names(&state).first().map(String::as_str), Some("synthetic-eth-perpetual-swap"));
    click(&mut state, "LAST");
    let largest = ["synthetic-btc", "synthetic-eth-perpetual-swap"];
    assert_eq!(names(&state)[..2], largest);
    assert_eq!(state.data.selected, selected);
    let addresses = Addresses { datasets: Some("http://other/api".into()), ..Addresses::default() };
    connect(&mut state, &addresses);
    assert_eq!(state.data.order.column, Some(LAST));
}
