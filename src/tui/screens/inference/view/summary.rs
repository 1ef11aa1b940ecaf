//! What the topic in view comes to: its values, large, and when they are from.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr;

use crate::{
    event::Target,
    screens::inference::{
        state::{Epoch, Feed, actors::Role, label_value, widest_interval},
        view::Scene,
    },
    state::{loadable::Loadable, services::Service},
    view::{hits::Hits, join_facts, strip},
    widget::{
        format::{self, or_none},
        paint, pane,
        share::ShareBar,
        stats::Quartiles,
    },
};

/// Labels that are shown as bars; a topic with more shows the first ones.
const LABELS_SHOWN: usize = 6;

/// Columns between two figures.
const FIGURE_GAP: u16 = 2;

/// A number with a name above it and a remark below.
struct Figure {
    name: &'static str,
    value: String,
    style: Style,
    remark: String,
}

/// The rows of the pane, its borders included.
pub(crate) fn height(scene: Scene<'_>, area: Rect, is_roomy: bool) -> u16 {
    let n_labels = scene.state.labels().len().min(LABELS_SHOWN);
    if area.height < 12 {
        0
    } else if n_labels > 1 {
        u16::try_from(n_labels).unwrap_or(0) + 2
    } else if is_roomy {
        5
    } else {
        3
    }
}

/// Draws the pane.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>, hits: &mut Hits) {
    if area.is_empty() {
        return;
    }
    let (state, theme) = (scene.state, scene.theme);
    let title = title(scene);
    // The corners, the spaces and a little of the border beside both.
    let room = usize::from(area.width).saturating_sub(title.width() + 10);
    let body = pane::Pane::new(title).info(info(scene, room)).draw(area, buf, theme);
    if state.latest.value().is_none() {
        scene.draw_nothing(body, buf);
    } else if state.labels().len() > 1 {
        draw_labels(body, buf, scene, hits);
    } else if body.height >= 3 {
        draw_figures(body, buf, &figures(scene), scene);
    } else {
        draw_short(body, buf, &figures(scene), scene);
    }
}

fn title(scene: Scene<'_>) -> String {
    let state = scene.state;
    let Some(selected) = state.selected else { return "Inference".to_owned() };
    let mut title = format!("Topic {selected}");
    if let Some(topic) = state.topic() {
        title = format!("{title} · {}", format::fit(&topic.name, 48));
    }
    if state.labels().len() > 1 {
        title = format!("{title} · {}", state.label());
    }
    if state.is_resistant { format!("{title} · without outliers") } else { title }
}

/// When the values are from, where the epoch stands, and how often the service is asked.
fn info(scene: Scene<'_>, room: usize) -> Line<'static> {
    let (state, theme, now) = (scene.state, scene.theme, scene.now);
    let mut parts: Vec<Span<'static>> = Vec::new();
    if let Some(latest) = state.latest.value() {
        parts.push(format!("nonce {}", format::count(latest.bundle.nonce)).into());
    }
    let away = scene.frame.away(Service::Inference);
    if let Some(height) = state.height(now).filter(|_| away.is_none()) {
        parts.push(format!("height {}", format::count(height)).into());
        let close_height = state.topic().and_then(|topic| topic.close_height);
        if close_height.is_some_and(|close| close <= height) {
            parts.push("closing".into());
        } else if let Some(close) = close_height {
            parts.push(
                format!("closes in {}", format::counted(close.saturating_sub(height), "block"))
                    .into(),
            );
        } else if let Some(topic) = state.topic() {
            let n_blocks = topic.next_epoch_height.saturating_sub(height);
            parts.push(format!("next epoch in {}", format::counted(n_blocks, "block")).into());
        }
    }
    match &state.latest {
        Loadable::Stale { .. } => parts.push(Span::styled(state.latest.note(now), theme.warn)),
        other if other.value().is_some() => parts.push(other.note(now).into()),
        _ => {}
    }
    match (away, state.limited_until) {
        (Some(away), _) => parts.push(away),
        _ if state.is_paused => parts.push(Span::styled("paused", theme.warn)),
        (None, Some(until)) => {
            let text = format!("429 · retry in {}", format::until(until.since(now)));
            parts.push(Span::styled(text, theme.warn));
        }
        _ if state.feed == Feed::Up => parts.push("stream".into()),
        _ => parts.push(format!("polls every {}", format::age(state.poll_interval())).into()),
    }
    join_facts(parts, room)
}

/// The numbers of a topic with a single output.
fn figures(scene: Scene<'_>) -> Vec<Figure> {
    let (state, theme) = (scene.state, scene.theme);
    let Some(latest) = state.latest.value() else { return Vec::new() };
    let label = state.label();
    let combined = label_value(&latest.bundle.combined_value, label);
    let naive = label_value(&latest.bundle.naive_value, label);
    let decimals = scene.decimals();
    let number = |value| or_none(value, |value| format::telling(value, decimals, format::grouped));
    let above = combined.zip(naive).map(|(combined, naive)| combined - naive);
    let of_role = |role| scene.actors.iter().filter(move |actor| actor.role == role);
    let inferers: Vec<_> = of_role(Role::Inferer).filter_map(|actor| actor.value).collect();
    let n_outliers = of_role(Role::Inferer).filter(|actor| actor.is_outlier).count();
    let forecasters: Vec<_> = of_role(Role::Forecaster).filter_map(|actor| actor.value).collect();
    let quartiles = Quartiles::compute(&inferers);
    let spread = quartiles.map(|q| q.upper - q.lower);
    // Shares differ by points.
    let points = if scene.is_percent() { " points" } else { "" };
    let reach = Quartiles::compute(&forecasters).map(|q| (q.upper - q.lower) / 2.0);
    let mut figures = vec![
        Figure {
            name: "◆ combined",
            value: number(combined),
            style: theme.series(1),
            remark: above.map_or_else(String::new, |above| {
                format!("{}{points} vs naive", format::telling(above, decimals, format::signed))
            }),
        },
        Figure {
            name: "◇ naive",
            value: number(naive),
            style: theme.text,
            remark: "inferers alone".to_owned(),
        },
        Figure {
            name: "spread p25–p75",
            value: number(spread),
            style: theme.series(0),
            remark: spread_remark(spread, combined, scene),
        },
        Figure {
            name: "● inferers",
            value: of_role(Role::Inferer).count().to_string(),
            style: theme.series(0),
            remark: match n_outliers {
                0 => "no outlier".to_owned(),
                n => format::counted(n, "outlier"),
            },
        },
        Figure {
            name: "▲ forecasters",
            value: of_role(Role::Forecaster).count().to_string(),
            style: theme.series(3),
            remark: reach.filter(|_| forecasters.len() > 1).map_or_else(String::new, |reach| {
                format!("±{}", format::telling(reach, decimals, format::grouped))
            }),
        },
    ];
    figures.extend(interval(scene, decimals));
    figures.extend(moved(scene, decimals));
    figures
}

/// The spread relative to the combined value; none for shares.
fn spread_remark(spread: Option<f64>, combined: Option<f64>, scene: Scene<'_>) -> String {
    if scene.is_percent() {
        return "points".to_owned();
    }
    let share = spread.zip(combined).map(|(spread, combined)| spread / combined.abs() * 100.0);
    let share = share.filter(|share| share.is_finite());
    share.map_or_else(String::new, |share| format!("{share:.2} % of combined"))
}

/// Where the values lie, counted by their weights.
fn interval(scene: Scene<'_>, decimals: usize) -> Option<Figure> {
    let state = scene.state;
    let (percent, low, high) = widest_interval(state.confidence.as_ref()?, state.label())?;
    Some(Figure {
        name: "weighted range",
        value: format!("{} – {}", format::grouped(low, decimals), format::grouped(high, decimals)),
        style: scene.theme.text,
        remark: format!("{percent:.0} % of weights"),
    })
}

/// How far the combined value has moved over the epochs that are known.
fn moved(scene: Scene<'_>, decimals: usize) -> Option<Figure> {
    let (state, label) = (scene.state, scene.state.label());
    let of = |epoch: &Epoch| Some((epoch.time, *epoch.combined.get(label)?));
    let mut known = state.past()?.epochs().rev().filter_map(of).take(11);
    let (newest_at, newest) = known.next()?;
    let (oldest_at, oldest) = known.last()?;
    let change = newest - oldest;
    Some(Figure {
        name: "moved",
        value: format::telling(change, decimals, format::signed),
        style: scene.theme.signed(change),
        remark: {
            let points = if scene.is_percent() { "points " } else { "" };
            format!("{points}over {}", format::span(newest_at.since(oldest_at)))
        },
    })
}

fn draw_figures(area: Rect, buf: &mut Buffer, figures: &[Figure], scene: Scene<'_>) {
    let mut x = 0;
    for (figure, width) in figures.iter().zip(figure_widths(figures, area.width)) {
        let place = Rect { x: area.x + x, width, ..area };
        paint::text(buf, place, (0, 0), figure.name, scene.theme.muted);
        let bold = figure.style.add_modifier(Modifier::BOLD);
        paint::text(buf, place, (0, 1), &figure.value, bold);
        let remark = format::fit(&figure.remark, usize::from(width.saturating_sub(FIGURE_GAP)));
        paint::text(buf, place, (0, 2), &remark, scene.theme.muted);
        x += width;
    }
}

/// The columns of each figure in `room`, with the gap after it: names and values in full, remarks as
/// far as there is room. The last figures are left out where there is too little.
fn figure_widths(figures: &[Figure], room: u16) -> Vec<u16> {
    let columns = |text: &str| u16::try_from(text.width()).unwrap_or(u16::MAX);
    let least = |it: &Figure| columns(it.name).max(columns(&it.value)).saturating_add(FIGURE_GAP);
    let mut widths: Vec<u16> = figures.iter().map(least).collect();
    let sum = |widths: &[u16]| widths.iter().copied().fold(0, u16::saturating_add);
    while sum(&widths) > room && widths.len() > 1 {
        widths.pop();
    }
    let mut left = room.saturating_sub(sum(&widths));
    for (width, figure) in widths.iter_mut().zip(figures) {
        let wanted = columns(&figure.remark).saturating_add(FIGURE_GAP).saturating_sub(*width);
        let more = wanted.min(left);
        *width += more;
        left -= more;
    }
    // What is left stands between all of them.
    let n = u16::try_from(widths.len()).unwrap_or(1).max(1);
    for width in &mut widths {
        *width += left / n;
    }
    widths
}

/// The figures in one row, as many as fit.
fn draw_short(area: Rect, buf: &mut Buffer, figures: &[Figure], scene: Scene<'_>) {
    let mut x = 0;
    for figure in figures {
        let line = Line::from(vec![
            Span::styled(format!("{} ", figure.name), scene.theme.muted),
            Span::styled(figure.value.clone(), figure.style.add_modifier(Modifier::BOLD)),
        ]);
        let width = u16::try_from(line.width()).unwrap_or(u16::MAX);
        if x + width > area.width {
            return;
        }
        x = paint::line(buf, area, (x, 0), &line).saturating_add(3);
    }
}

/// Draws a bar for each label: its share in the combined values, and the naive one's beside it.
fn draw_labels(area: Rect, buf: &mut Buffer, scene: Scene<'_>, hits: &mut Hits) {
    let (state, theme) = (scene.state, scene.theme);
    let Some(latest) = state.latest.value() else { return };
    let labels = state.labels();
    let values: Vec<_> =
        labels.iter().map(|label| label_value(&latest.bundle.combined_value, label)).collect();
    let highest = values.iter().flatten().copied().fold(1.0, f64::max);
    let widest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let name_width = u16::try_from(widest).unwrap_or(0).clamp(4, 16);
    let is_best = |value: Option<f64>| {
        value.is_some() && values.iter().flatten().all(|other| Some(*other) <= value)
    };
    for (idx, (y, (label, value))) in (0..area.height).zip(labels.iter().zip(&values)).enumerate() {
        hits.add(strip(area, (0, y), area.width), Target::Label(idx));
        let is_chosen = *label == state.label();
        let style = if is_chosen { theme.text.add_modifier(Modifier::BOLD) } else { theme.muted };
        paint::text(buf, area, (0, y), if is_chosen { "▸" } else { " " }, theme.focus);
        paint::text(buf, area, (2, y), &format::fit(label, name_width.into()), style);
        let naive = label_value(&latest.bundle.naive_value, label);
        let number = |value| or_none(value, |value| format::fixed(value, 4));
        let start = name_width + 4;
        let bar_width = area.width.saturating_sub(start + 30);
        let bar = Rect { x: area.x + start, y: area.y + y, width: bar_width, height: 1 };
        if let Some(value) = value {
            let style = if is_best(Some(*value)) { theme.series(1) } else { theme.series(0) };
            ShareBar { share: value / highest, bar: style, rest: theme.faint }.render(bar, buf);
        }
        if let Some(naive) = naive.filter(|naive| naive.is_finite()) {
            let x =
                paint::cells(naive / highest * f64::from(bar_width), bar_width.saturating_sub(1));
            paint::put(buf, bar, (x, 0), '◇', theme.text);
        }
        let x = start + bar_width + 2;
        paint::text(buf, area, (x, y), "◆", theme.series(1));
        paint::text(buf, area, (x + 2, y), &number(*value), style);
        paint::text(buf, area, (x + 12, y), "◇", theme.text);
        paint::text(buf, area, (x + 14, y), &number(naive), theme.muted);
    }
}
