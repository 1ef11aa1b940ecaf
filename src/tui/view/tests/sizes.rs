//! Every screen in every size, with the most unusual data that services can send.

use model::dataset::Dataset;
use model::topic::TopicId;

use super::*;
use crate::event::{DataEvent, DatasetSearch, DatasetsPage, InferenceEvent, LatestBundle};

/// Letters that are wide, combining, invisible or unprintable.
const STRANGE: &str = "日本語の長い名前 \u{1f980}\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467} e\u{301}\u{301}\u{301} \u{200b}\t\u{7f}\u{202e}ab";

/// Difference between two consecutive tested widths or heights, which start at one cell.
const STEP: u16 = 3;

/// Every width is tested with every multiple of this number of steps as height, and every height with
/// every such multiple as width. Wide and narrow layouts meet low and high ones, without a test of each
/// pair.
const COARSE: u16 = 6;

/// The largest size.
const SIZE_MAX: (u16, u16) = (200, 60);

/// Symbol in the cells around the screen. Drawing must not overwrite it.
const AROUND: &str = "·";

/// Returns a screen with unusual names and invalid numbers from all services.
fn strange() -> Harness {
    let mut screen = Harness::ready(SIZE_MAX.0, SIZE_MAX.1);
    screen.take(Event::Local(LocalEvent::Log(LocalLog {
        process: STRANGE.to_owned(),
        level: Level::Error,
        time: screen.state.now,
        message: STRANGE.repeat(9),
        fields: [(STRANGE, STRANGE)].into_iter().collect(),
    })));
    screen.run_split();
    let now = screen.state.now;
    let dataset = |number| Dataset {
        description: STRANGE.to_owned(),
        metadata: [(STRANGE.to_owned(), STRANGE.to_owned())].into(),
        ..harness::dataset(number, &format!("{STRANGE}{number}"), now)
    };
    let datasets = (1..40).map(dataset).collect();
    let page = DatasetsPage { n_datasets: None, datasets, has_more: true };
    screen.take(Event::Data(DataEvent::Datasets { search: DatasetSearch::ALL, result: Ok(page) }));
    let mut nodes = harness::nodes();
    for node in &mut nodes {
        node.role = Some("worker".to_owned());
        node.attributes = [(STRANGE.to_owned(), STRANGE.repeat(9))].into();
        node.cordoned = true;
    }
    screen.take(Event::Nodes(screen.head(), Ok(nodes), Duration::ZERO));
    screen.state.cluster.grouped_by = Some(STRANGE.to_owned());
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, -1e308];
    let inferers = values.map(|value| ("allo1x0c2v9pq".to_owned(), value));
    let bundle = harness::bundle(u64::MAX, STRANGE, [f64::NAN, f64::NEG_INFINITY], inferers);
    let latest = LatestBundle { bundle, block_height: u64::MAX };
    screen.press("4");
    let topic = TopicId::new(1).unwrap();
    screen.state.inference.selected = Some(topic);
    screen.take(Event::Inference(InferenceEvent::Latest {
        topic,
        is_resistant: false,
        result: Ok(latest),
    }));
    screen.state.notify(STRANGE.to_owned(), STRANGE.repeat(3));
    screen
}

/// Draws the screen that `key` selects in all sizes. Checks that the cells around it do not
/// change.
#[track_caller]
fn check(key: &str) {
    let mut screen = strange();
    screen.press(key);
    let theme = Theme::new(theme::Name::Dark, theme::depth::Depth::TrueColor);
    let is_coarse = |length: u16| (length / STEP).is_multiple_of(COARSE);
    for width in (1..=SIZE_MAX.0).step_by(STEP.into()) {
        for height in (1..=SIZE_MAX.1).step_by(STEP.into()) {
            if !is_coarse(width) && !is_coarse(height) {
                continue;
            }
            let mut buf = Buffer::empty(Rect::new(0, 0, width + 2, height + 2));
            for x in 0..width + 2 {
                for y in [0, height + 1] {
                    buf[(x, y)].set_symbol(AROUND);
                }
            }
            for y in 0..height + 2 {
                for x in [0, width + 1] {
                    buf[(x, y)].set_symbol(AROUND);
                }
            }
            screen.state.size = (width, height);
            draw(Rect::new(1, 1, width, height), &mut buf, &screen.state, &theme);
            let is_edge = |at: usize| {
                let (x, y) = buf.pos_of(at);
                x == 0 || y == 0 || x == width + 1 || y == height + 1
            };
            let cells = buf.content().iter().enumerate().filter(|(at, _)| is_edge(*at));
            let n_other = cells.filter(|(_, cell)| cell.symbol() != AROUND).count();
            assert_eq!(n_other, 0, "{key} stays inside at {width}×{height}");
        }
    }
}

#[test]
fn cluster_screen_fits_every_size() {
    check("1");
}

#[test]
fn execute_screen_fits_every_size() {
    check("2");
}

#[test]
fn data_screen_fits_every_size() {
    check("3");
}

#[test]
fn inference_screen_fits_every_size() {
    check("4");
}

#[test]
fn logs_screen_fits_every_size() {
    check("5");
}

#[test]
fn overview_fits_every_size() {
    check("0");
}

#[test]
fn columns_of_the_node_table_do_not_move_when_a_node_is_cordoned() {
    for (width, height) in [(60, 16), (80, 24), (120, 30), (160, 45), (200, 60), (300, 80)] {
        let mut screen = Harness::ready(width, height);
        screen.press("1");
        let head_row = |screen: &Harness| {
            let shown = screen.text();
            shown.lines().find(|line| line.contains("ROLE")).unwrap().to_owned()
        };
        let before = head_row(&screen);
        let mut nodes = harness::nodes();
        nodes[2].cordoned = true;
        screen.take(Event::Nodes(screen.head(), Ok(nodes), Duration::from_millis(1)));
        assert_eq!(head_row(&screen), before, "{width}x{height}");
        screen.shows(&["1 out"]);
    }
}
