//! Drawings of the widgets, and properties that hold for any area and any number.

use std::time::Duration;

use line_clipping::Point as Dot;
use model::row::Bucket;
use model::timestamp::Timestamp;
use proptest::prelude::*;
use ratatui::prelude::*;

use super::braille;
use super::candles::{Candles, Density};
use super::line::{self, Lines, Point};
use super::pane::{Pane, divider};
use super::stats;
use super::strip::Strip;
use crate::harness::{self, noise};
use crate::theme::depth::Depth;
use crate::theme::{Name, Theme};
use crate::widget::bars::{DivergingBar, Floor, ShareBar, Sparkline};

fn dark() -> Theme {
    Theme::new(Name::Dark, Depth::TrueColor)
}

/// Returns a buffer in the background color of the theme.
fn canvas(width: u16, height: u16, theme: &Theme) -> Buffer {
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    theme.clear(buf.area, &mut buf);
    buf
}

/// Returns five-minute candles of a random walk, which resembles a market.
fn walk(n: usize, seed: u64) -> Vec<Bucket> {
    let start: Timestamp = "2026-11-20T03:35:00Z".parse().unwrap();
    let (mut seed, mut price) = (seed, 67_700.0);
    (0..u32::try_from(n).unwrap())
        .map(|idx| {
            let open = price;
            let ticks: Vec<f64> = (0..12)
                .map(|_| {
                    price += (noise(&mut seed) - 0.5) * 34.0;
                    price
                })
                .collect();
            let high = ticks.iter().copied().fold(open, f64::max);
            let low = ticks.iter().copied().fold(open, f64::min);
            let volume = 2.0 + 30.0 * noise(&mut seed).powi(4);
            let time = start + Duration::from_mins(5) * idx;
            Bucket { timestamp: time, open, high, low, close: price, volume, count: 5 }
        })
        .collect()
}

fn points(candles: &[Bucket]) -> Vec<Point> {
    candles.iter().map(|c| Point { time: c.timestamp, value: c.close }).collect()
}

/// Returns a chart of five-minute candles and nothing else.
fn plain_chart<'a>(bars: &'a [Bucket], density: Density, theme: &'a Theme) -> Candles<'a> {
    Candles {
        bars,
        bucket: Some(Duration::from_mins(5)),
        n_newer: 0,
        n_free: 0,
        density,
        lines: &[],
        now: bars.first().map_or_else(Timestamp::default, |c| c.timestamp),
        crosshair: None,
        open_bucket: None,
        decimals: 1,
        scale: None,
        theme,
    }
}

fn draw_candles(
    width: u16,
    height: u16,
    candles: &[Bucket],
    density: Density,
    theme: &Theme,
) -> Buffer {
    let mut buf = canvas(width, height, theme);
    let average = stats::moving_average(candles, 20).into_iter().zip(candles);
    let average: Vec<_> = average
        .map(|(mean, it)| Point { time: it.timestamp, value: mean.unwrap_or(f64::NAN) })
        .collect();
    let guide = line::Series::new(&average, theme.overlay[0]);
    let chart = Candles {
        lines: &[line::Series { is_guide: true, ..guide }],
        crosshair: candles.iter().rev().nth(9).map(|candle| candle.timestamp),
        open_bucket: candles.last().map(|candle| candle.timestamp),
        ..plain_chart(candles, density, theme)
    };
    chart.render(buf.area, &mut buf);
    buf
}

#[test]
fn candles_are_drawn_at_several_sizes() {
    let candles = walk(90, 7);
    for (name, width, height, density) in [
        ("candles_72x20", 72, 20, Density::Narrow),
        ("candles_40x12_dense", 40, 12, Density::Dense),
        ("candles_60x16_wide", 60, 16, Density::Wide),
    ] {
        insta::assert_snapshot!(
            name,
            harness::framed_text(&draw_candles(width, height, &candles, density, &dark()))
        );
    }
}

#[test]
fn falling_candle_is_shaded_without_colors() {
    let theme = Theme::new(Name::Mono, Depth::None);
    let text = harness::framed_text(&draw_candles(60, 16, &walk(40, 7), Density::Narrow, &theme));
    assert!(text.contains('▒') && text.contains('█'), "{text}");
}

#[test]
fn empty_buckets_leave_columns_free_and_a_long_gap_has_only_one_free_column() {
    let all = walk(20, 3);
    let some: Vec<_> = all
        .iter()
        .enumerate()
        .filter(|(idx, _)| ![3, 9, 10, 11, 12, 13].contains(idx))
        .map(|(_, c)| *c)
        .collect();
    insta::assert_snapshot!(
        "candles_gaps",
        harness::framed_text(&draw_candles(52, 14, &some, Density::Narrow, &dark()))
    );
}

#[test]
fn area_below_a_line_is_tinted_if_colors_can_be_mixed() {
    for (depth, n_tinted) in [(Depth::TrueColor, 6), (Depth::Indexed256, 0), (Depth::None, 0)] {
        let theme = Theme::new(Name::Dark, depth);
        let area = Rect::new(0, 0, 3, 4);
        let mut layer = braille::Layer::new(3, 4, theme.series(0));
        layer.line(Dot { x: 0.0, y: 5.0 }, Dot { x: 5.0, y: 5.0 });
        let mut buf = Buffer::empty(area);
        theme.clear(area, &mut buf);
        let bg = buf[(0, 0)].bg;
        layer.wash(area, &mut buf, &theme);
        let tinted: Vec<u16> =
            area.positions().filter(|at| buf[*at].bg != bg).map(|at| at.y).collect();
        assert_eq!(tinted.len(), n_tinted, "{depth:?}");
        assert!(tinted.iter().all(|y| *y > 1), "only the area below the line is tinted");
    }
}

#[test]
fn lines_are_drawn_over_a_time_axis() {
    let theme = dark();
    let mut buf = canvas(60, 14, &theme);
    let (one, other) = (points(&walk(140, 11)), points(&walk(140, 23)));
    let lines = [line::Series::new(&other, theme.muted), line::Series::new(&one, theme.series(1))];
    Lines {
        gap: Duration::from_mins(15),
        tag: one.last().map(|point| (point.value, theme.up)),
        ..Lines::new(&lines, one[0].time, 1, &theme)
    }
    .render(buf.area, &mut buf);
    insta::assert_snapshot!("lines_60x14", harness::framed_text(&buf));
}

#[test]
fn labels_of_a_line_of_zeros_are_not_cut() {
    let theme = dark();
    let mut zeros = points(&walk(20, 1));
    for point in &mut zeros {
        point.value = 0.0;
    }
    let mut buf = canvas(60, 40, &theme);
    let lines = [line::Series::new(&zeros, theme.muted)];
    Lines::new(&lines, zeros[0].time, 0, &theme).render(buf.area, &mut buf);
    let shown = harness::framed_text(&buf);
    assert!(shown.contains("-0.5"), "{shown}");
}

#[test]
fn distribution_is_drawn_at_two_sizes() {
    let theme = dark();
    let strip = Strip {
        inferers: &[
            67402.5, 67471.2, 67489.7, 67495.5, 67498.0, 67505.6, 67508.1, 67512.4, 67519.8,
            67527.0, 67533.9, 67610.3, 67508.3,
        ],
        forecasters: &[67499.4, 67503.0, 67506.2, 67511.9],
        combined: Some(67502.8),
        naive: Some(67488.1),
        selected: Some(67527.0),
        theme: &theme,
    };
    for (name, width, height) in [("strip_76x8", 76, 8), ("strip_30x3", 30, 3)] {
        let mut buf = canvas(width, height, &theme);
        strip.render(buf.area, &mut buf);
        insta::assert_snapshot!(name, harness::framed_text(&buf));
    }
}
#[test]
fn bars_and_panes_are_drawn() {
    let theme = dark();
    let mut buf = canvas(42, 14, &theme);
    let pane = Pane::new("Bars").info("3 of 3").footer("⏎ opens").focus(true);
    let inside = pane.draw(buf.area, &mut buf, &theme);
    let row = |y| Rect { y: inside.y + y, height: 1, ..inside };
    for (y, value) in [(0, 107.5), (1, -100.3), (2, -31.6), (3, 24.2), (4, -0.1), (5, f64::NAN)] {
        let (bar, center) = (theme.signed(value), theme.series(1));
        DivergingBar { value, extreme: 107.5, bar, center }.render(row(y), &mut buf);
    }
    divider(&mut buf, Rect::new(0, 0, 42, 14), 7, "Shares", true, &theme);
    for (y, part) in [(7, 0.75), (8, 0.33), (9, 0.001)] {
        let bar = ShareBar { share: part, bar: theme.up, rest: theme.faint };
        bar.render(row(y), &mut buf);
    }
    let values: Vec<_> = walk(50, 2).iter().map(|c| Some(c.close)).collect();
    let line = Sparkline::new(&values, Floor::Lowest, theme.info);
    line.render(Rect { height: 2, ..row(10) }, &mut buf);
    insta::assert_snapshot!("bars_42x14", harness::framed_text(&buf));
}

#[test]
fn sparkline_shows_gaps_and_ends_with_the_newest_value() {
    let mut buf = Buffer::empty(Rect::new(0, 0, 8, 1));
    let values = [Some(1.0), None, Some(f64::NAN), Some(8.0), Some(4.5)];
    Sparkline::new(&values, Floor::Lowest, dark().up).render(buf.area, &mut buf);
    assert_eq!(harness::framed_text(&buf), "│   ▁  ▇▄│");
}

#[test]
fn sparkline_draws_zero_as_a_line_and_can_share_its_scale_with_other_sparklines() {
    let mut buf = Buffer::empty(Rect::new(0, 0, 3, 1));
    let bars = |values| Sparkline::new(values, Floor::Zero, dark().up);
    bars(&[Some(0.0), Some(0.0)]).render(buf.area, &mut buf);
    assert_eq!(harness::framed_text(&buf), "│ ▁▁│", "a line on the floor");
    buf.reset();
    Sparkline { top_min: 4.0, ..bars(&[Some(2.0), Some(2.0)]) }.render(buf.area, &mut buf);
    assert_eq!(harness::framed_text(&buf), "│ ▄▄│", "half of the top of the other sparkline");
}

#[test]
fn values_more_than_three_median_deviations_away_are_outliers() {
    let want = [false, false, false, false, true, false];
    assert_eq!(stats::outliers(&[1.0, 2.0, 3.0, 4.0, 99.0, f64::NAN]), want);
    assert_eq!(stats::outliers(&[5.0, 5.0, 5.0, 6.0]), [false; 4]);
}

#[test]
fn moving_average_begins_once_there_are_enough_candles() {
    let candles = walk(4, 1);
    let averages = stats::moving_average(&candles, 2);
    assert_eq!(averages[0], None);
    let want = f64::midpoint(candles[2].close, candles[3].close);
    assert!((averages[3].unwrap() - want).abs() < 1e-9);
    assert_eq!(stats::moving_average(&candles, 9), [None; 4]);
    assert_eq!(stats::volume_weighted_average(&candles).iter().flatten().count(), 4);
}

/// Any float. Edge cases are frequent.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e5..1e5_f64,
        1 => any::<f64>(),
        1 => proptest::sample::select(vec![
            0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE,
        ]),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        4 => (1_700_000_000..1_700_100_000_i64).prop_map(Timestamp::from_seconds),
        1 => any::<i64>().prop_map(Timestamp::from_micros),
    ]
}

prop_compose! {
    fn candle()(
        time in time(), open in number(), high in number(), low in number(), close in number(),
        volume in number(), count in any::<u64>(),
    ) -> Bucket {
        Bucket { timestamp: time, open, high, low, close, volume, count }
    }
}

/// Returns a buffer, and an area in it to draw into. The cells around the area must not change.
fn framed(x: u16, y: u16, width: u16, height: u16) -> (Buffer, Rect) {
    let mut buf = Buffer::empty(Rect::new(x, y, width + 2, height + 2));
    for cell in &mut buf.content {
        cell.set_char('#');
    }
    (buf, Rect::new(x + 1, y + 1, width, height))
}

fn is_untouched_outside(buf: &Buffer, area: Rect) -> bool {
    buf.area
        .positions()
        .filter(|place| !area.contains(*place))
        .all(|place| buf[place].symbol() == "#")
}

proptest! {
    #[test]
    fn any_number_of_candles_is_drawn_in_any_area_without_panic(
        (x, y, width, height) in (0..9u16, 0..9u16, 0..130u16, 0..50u16),
        candles in prop::collection::vec(candle(), 0..90),
        bucket in prop::option::of(0..90_000u64),
        n_newer in 0..100usize,
        density in prop::sample::select(vec![Density::Dense, Density::Narrow, Density::Wide]),
        (decimals, n_free) in (0..20usize, 0..200usize),
    ) {
        let theme = dark();
        let (mut buf, area) = framed(x, y, width, height);
        let points = points(&candles);
        let chart = Candles {
            bucket: bucket.map(Duration::from_secs),
            n_newer,
            n_free,
            lines: &[line::Series { marks: &points, ..line::Series::new(&points, theme.up) }],
            crosshair: candles.first().map(|c| c.timestamp),
            open_bucket: candles.last().map(|c| c.timestamp),
            decimals,
            ..plain_chart(&candles, density, &theme)
        };
        chart.render(area, &mut buf);
        prop_assert!(is_untouched_outside(&buf, area));
        prop_assert!(chart.capacity(width) <= usize::from(width));
        chart.render(Rect::new(0, 0, u16::MAX, u16::MAX), &mut buf);
    }

    #[test]
    fn any_number_of_lines_is_drawn_in_any_area_without_panic(
        (width, height) in (0..130u16, 0..50u16),
        raw in prop::collection::vec((time(), number()), 0..90),
        (start, end) in (time(), time()),
        gap in any::<u32>(),
    ) {
        let theme = dark();
        let (mut buf, area) = framed(2, 3, width, height);
        let points: Vec<_> = raw.iter().map(|(time, value)| Point { time: *time, value: *value }).collect();
        Lines {
            series: &[line::Series { is_filled: true, ..line::Series::new(&points, theme.up) }],
            start,
            end,
            gap: Duration::from_secs(gap.into()),
            volumes: &points,
            now: start,
            crosshair: points.first().map(|p| p.time),
            tag: points.last().map(|p| (p.value, theme.up)),
            decimals: 2,
            scale: None,
            theme: &theme,
        }
        .render(area, &mut buf);
        prop_assert!(is_untouched_outside(&buf, area));
    }

    #[test]
    fn any_number_of_strips_and_bars_is_drawn_in_any_area_without_panic(
        (width, height) in (0..130u16, 0..20u16),
        values in prop::collection::vec(number(), 0..60),
    ) {
        let theme = dark();
        let (mut buf, area) = framed(1, 2, width, height);
        Strip {
            inferers: &values,
            forecasters: &values,
            combined: values.first().copied(),
            naive: values.last().copied(),
            selected: values.get(1).copied(),
            theme: &theme,
        }
        .render(area, &mut buf);
        let options: Vec<_> = values.iter().map(|value| Some(*value)).collect();
        for floor in [Floor::Zero, Floor::Lowest] {
            Sparkline::new(&options, floor, theme.up).render(area, &mut buf);
        }
        for pair in values.windows(2) {
            let (bar, center, rest) = (theme.up, theme.text, theme.faint);
            DivergingBar { value: pair[0], extreme: pair[1], bar, center }.render(area, &mut buf);
            ShareBar { share: pair[0], bar, rest }.render(area, &mut buf);
        }
        prop_assert!(is_untouched_outside(&buf, area));
    }

    #[test]
    fn pane_with_any_title_is_drawn_in_any_area_without_panic(
        (width, height) in (0..60u16, 0..8u16), title in ".{0,40}", info in ".{0,40}",
    ) {
        let theme = dark();
        let (mut buf, area) = framed(1, 2, width, height);
        let pane = Pane::new(title.clone()).info(info.clone()).footer(info);
        let inside = pane.draw(area, &mut buf, &theme);
        prop_assert!(is_untouched_outside(&buf, area));
        prop_assert!(inside.is_empty() || area.intersection(inside) == inside);
        divider(&mut buf, area, height / 2, title, true, &theme);
        prop_assert!(is_untouched_outside(&buf, area));
    }
}

#[test]
fn moving_average_far_from_the_candles_does_not_affect_the_scale() {
    let candles = walk(60, 7);
    let theme = dark();
    let one = points(&candles);
    let far: Vec<_> = one.iter().map(|it| Point { value: it.value * 10.0, ..*it }).collect();
    let labels = |chart: &dyn Fn(&mut Buffer)| {
        let mut buf = canvas(60, 16, &theme);
        chart(&mut buf);
        let text = harness::framed_text(&buf);
        let ends = text.lines().filter_map(|line| line.rsplit_once("  "));
        ends.map(|(_, label)| label.to_owned()).collect::<Vec<_>>()
    };
    let lines = |lines: &[line::Series<'_>]| {
        labels(&|buf| {
            let lines = Lines::new(lines, candles[0].timestamp, 1, &theme);
            Lines { tag: None, ..lines }.render(buf.area, buf);
        })
    };
    let series = line::Series::new(&one, theme.series(1));
    let other = line::Series::new(&far, theme.muted);
    let alone = lines(&[series]);
    assert_eq!(lines(&[line::Series { is_guide: true, ..other }, series]), alone);
    assert_ne!(lines(&[other, series]), alone, "a series that is not a guide affects the scale");
    // On a chart of candles, a line far from the candles does not change the scale, either.
    let plain = plain_chart(&candles, Density::Dense, &theme);
    let guides = [line::Series { is_guide: true, ..other }];
    let with_guide = labels(&|buf| Candles { lines: &guides, ..plain }.render(buf.area, buf));
    assert_eq!(with_guide, labels(&|buf| plain.render(buf.area, buf)));
}

#[test]
fn time_axis_of_few_candles_has_a_label() {
    for n in [1, 2, 3] {
        let shown =
            harness::framed_text(&draw_candles(60, 16, &walk(n, 7), Density::Narrow, &dark()));
        assert!(shown.contains("03:35"), "{shown}");
    }
}
