//! The form: its fields, what is to be said about them, and the request they make.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use super::{FORM, draw_field};
use crate::{
    action::Action,
    event::Target,
    state::{
        cluster::Known,
        execute::{Check, FormField, Pane},
        runs::Phase,
    },
    theme::Theme,
    view::{Frame, Tier, focus_if, hits::Hits, logs, results, split_rows},
    widget::{format, paint, pane},
};

/// Columns of the labels.
const LABEL_WIDTH: u16 = 11;

pub(super) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let Frame { state, theme, tier } = frame;
    hits.add(area, Target::Pane(FORM));
    let is_focused = state.execute.focus == Pane::Form;
    let info = if tier >= Tier::Large { wire::paths::FUNCTIONS_EXECUTE } else { "" };
    let info = if info.is_empty() { String::new() } else { format!("POST {info}") };
    let frame_of_pane = pane::Pane::new("Execute function").info(info).focus(focus_if(is_focused));
    let inside = pane::padded(frame_of_pane.draw(area, buf, theme));
    // A line between fields where there is room for it, and what is to be said below each.
    let is_roomy = inside.height >= 30;
    let mut y = u16::from(is_roomy);
    y = draw_head(inside, buf, frame, y, is_roomy);
    let known = state.known();
    // Only so many fields fit a low pane; the focused one is among them.
    let focus = FormField::ALL.iter().position(|field| *field == state.execute.form.focused());
    let first = if is_roomy {
        0
    } else {
        let n_fit = usize::from(inside.height.saturating_sub(y + 2)).max(1);
        crate::view::table::first_row(focus.unwrap_or(0), FormField::ALL.len(), n_fit)
    };
    for (number, field) in FormField::ALL.into_iter().enumerate().skip(first) {
        if y >= inside.height {
            break;
        }
        y = draw_one(inside, buf, frame, (number, field, y, is_roomy, known), hits);
    }
    if is_roomy {
        y = draw_preview(inside, buf, frame, y);
    }
    let [_, below] = split_rows(inside, y);
    draw_buttons(below, buf, theme, hits);
    let [_, below] = split_rows(below, 2);
    if is_roomy {
        draw_recent(below, buf, frame);
    }
}

/// The head that a run goes to; it is the profile's, not the form's to change.
fn draw_head(area: Rect, buf: &mut Buffer, frame: Frame<'_>, y: u16, is_roomy: bool) -> u16 {
    let Frame { state, theme, .. } = frame;
    paint::text(buf, area, (0, y), &format::right("head", LABEL_WIDTH.into()), theme.muted);
    let address = state.services.addresses.head.as_deref().unwrap_or("none known");
    let x = paint::text(buf, area, (LABEL_WIDTH + 2, y), address, theme.text);
    let origin = if state.stack.summary().is_some() { "local stack" } else { "from the profile" };
    if state.services.addresses.head.is_some() {
        paint::text(buf, area, (x + 2, y), origin, theme.muted);
    }
    y + 1 + u16::from(is_roomy)
}

fn draw_one(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    (number, field, y, is_roomy, known): (usize, FormField, u16, bool, Known<'_>),
    hits: &mut Hits,
) -> u16 {
    let Frame { state, theme, .. } = frame;
    let form = &state.execute.form;
    let is_here = state.execute.focus == Pane::Form && form.focused() == field;
    let label_style = if is_here { theme.text.add_modifier(Modifier::BOLD) } else { theme.muted };
    let label = format::right(field.label(), LABEL_WIDTH.into());
    paint::text(buf, area, (0, y), &label, label_style);

    let x = area.x.saturating_add(LABEL_WIDTH + 1);
    let width = match field {
        FormField::Nodes => 10,
        FormField::Subgroup => 24,
        _ => area.width,
    };
    let room = area.right().saturating_sub(x).saturating_sub(3);
    let place = Rect { x, y: area.y.saturating_add(y), width: width.min(room), height: 1 }
        .intersection(area);
    buf.set_style(place, if is_here { theme.sel } else { theme.bar });
    let text_area = pane::padded(place);
    if field == FormField::Function {
        draw_picker(text_area, buf, frame, is_here);
    } else {
        let place = form.place(field);
        let mut text = place.text.clone();
        if is_here {
            text.edit();
        } else {
            text.keep();
        }
        draw_field(text_area, buf, theme, &text, theme.text);
    }
    hits.add(place, Target::Row { pane: FORM, row: number });
    let check = form.check(field, known);
    let is_told = form.place(field).is_left || matches!(check, Check::Fit(_));
    let (mark, style) = mark(&check, theme);
    let is_empty = form.text(field).is_empty() && field != FormField::Function;
    if is_told && !(is_empty && check.is_fit()) {
        paint::text(buf, area, (place.right().saturating_sub(area.x) + 1, y), mark, style);
    }
    let note_y = y + 1;
    match (&check, is_roomy) {
        (Check::Fit(note), true) => {
            paint::text(buf, area, (LABEL_WIDTH + 2, note_y), note, theme.muted);
        }
        (Check::Doubtful(note) | Check::Unfit(note), _) if is_told => {
            paint::text(buf, area, (LABEL_WIDTH + 2, note_y), &format!("└ {note}"), style);
            return note_y + 1 + u16::from(is_roomy && area.height > 40);
        }
        _ if !is_roomy => return y + 1,
        _ => {}
    }
    note_y + 1 + u16::from(is_roomy && area.height > 40)
}

fn mark(check: &Check, theme: &Theme) -> (&'static str, Style) {
    match check {
        Check::Fit(_) => ("✓", theme.up),
        Check::Doubtful(_) => ("!", theme.warn),
        Check::Unfit(_) => ("✗", theme.down),
    }
}

fn draw_picker(area: Rect, buf: &mut Buffer, frame: Frame<'_>, is_here: bool) {
    let Frame { state, theme, .. } = frame;
    let form = &state.execute.form;
    let name = match form.function() {
        Some((_, function)) => function.name.clone(),
        None if form.functions.is_empty() => "—".to_owned(),
        None => "another".to_owned(),
    };
    let x = paint::text(buf, area, (0, 0), &name, theme.text);
    if is_here && !form.functions.is_empty() {
        paint::text(buf, area, (x + 2, 0), "↑↓", theme.key);
    }
}

fn draw_preview(area: Rect, buf: &mut Buffer, frame: Frame<'_>, y: u16) -> u16 {
    let theme = frame.theme;
    let request = frame.state.execute.form.preview();
    let text = serde_json::to_string_pretty(&request).unwrap_or_default();
    let n_lines = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    // The buttons stay in view, whatever the request.
    let room = area.height.saturating_sub(y + 2);
    let n_shown = n_lines.min(room).min(14);
    paint::text(buf, area, (0, y), &format::right("request", LABEL_WIDTH.into()), theme.muted);
    for (row, line) in (y..y + n_shown).zip(text.lines()) {
        let width = area.width.saturating_sub(LABEL_WIDTH + 1);
        let line = format::fit(line, width.into());
        paint::text(buf, area, (LABEL_WIDTH + 1, row), &line, theme.muted);
    }
    y + n_shown + 1
}

fn draw_buttons(area: Rect, buf: &mut Buffer, theme: &Theme, hits: &mut Hits) {
    let mut x = LABEL_WIDTH + 1;
    let buttons = [
        (" ^R Run ", Action::Run, theme.tag(theme.focus)),
        (" ^Y Copy as curl ", Action::CopyCurl, theme.sel.patch(theme.text)),
    ];
    for (text, action, style) in buttons {
        let end = paint::text(buf, area, (x, 0), text, style);
        let place = Rect {
            x: area.x.saturating_add(x),
            width: end.saturating_sub(x),
            height: area.height.min(1),
            ..area
        };
        hits.add(place, Target::Action(action));
        x = end + 2;
    }
}

fn draw_recent(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    if state.runs.iter().len() == 0 || area.height < 3 {
        return;
    }
    let bold = theme.text.add_modifier(Modifier::BOLD);
    paint::text(buf, area, (0, 0), "Recent", bold);
    for (y, run) in (1..area.height).zip(state.runs.iter()) {
        let request = &run.request;
        let (result, style) = match &run.phase {
            Phase::Waiting => ("…".to_owned(), theme.info),
            Phase::Cancelled => ("cancelled".to_owned(), theme.muted),
            Phase::Failed(failure) => (failure.why.clone(), theme.down),
            Phase::Done(response) => match response.results.as_slice() {
                [] => ("no result".to_owned(), theme.warn),
                [group] => (results::frequency(group.frequency), theme.up),
                [group, ..] => {
                    let n = response.results.len();
                    (format!("{} · {n} groups", results::frequency(group.frequency)), theme.warn)
                }
            },
        };
        let text = format!(
            "{} {}  {:>3} {} ",
            logs::time_of_day(run.sent_at, 8),
            format::left(&request.method, 16),
            request.config.number_of_nodes,
            format::left(request.group().unwrap_or("*"), 8)
        );
        let x = paint::text(buf, area, (0, y), &text, theme.muted);
        paint::text(buf, area, (x + 1, y), &result, style);
    }
}
