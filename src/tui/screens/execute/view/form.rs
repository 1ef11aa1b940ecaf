//! Draws the form: its fields, their hints and errors, and its request.

use ratatui::prelude::*;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;
use wire::functions::{ExecuteRequest, FunctionBody};

use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::screens::execute::state::{Check, Form, FormField, Pane};
use crate::state::navigation::Steps as _;
use crate::state::runs::workers_text;
use crate::state::stack;
use crate::theme::Theme;
use crate::view::{
    Frame, LabelledField, Tier, first_row, results, split_columns, split_rows, strip, text_cut,
    wrapped,
};
use crate::widget::{format, paint, pane};

/// Width of the labels.
const LABEL_WIDTH: u16 = 11;

/// Maximum number of functions or datasets listed below a field.
const CHOICES_MAX: u16 = 8;

/// Width of the field for the source of standard input, including its label.
const SOURCE_WIDTH: u16 = LABEL_WIDTH + 12;

/// The fields in each line of the form.
const LINES: [&[FormField]; 9] = [
    &[FormField::Function],
    &[FormField::FunctionId],
    &[FormField::Method],
    &[FormField::Nodes, FormField::Subgroup],
    &[FormField::Selector],
    &[FormField::Arguments],
    &[FormField::Environment],
    &[FormField::Source, FormField::Stdin],
    &[FormField::Timeout, FormField::RunLimit],
];

pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, tier, .. } = frame;
    frame.hits.add(area, Target::Pane(Pane::Form.number()));
    let path = format!("POST {}", wire::paths::FUNCTIONS_EXECUTE);
    let info = if tier >= Tier::Large { path } else { String::new() };
    let focus = state.execute.focus == Pane::Form;
    let inside = pane::Pane::new("Execute function").info(info).focus(focus).draw(area, buf, theme);
    let is_roomy = is_roomy(inside);
    let mut y = draw_head(inside, buf, frame, u16::from(is_roomy), is_roomy);
    // If not all lines fit, those around the focused field are shown.
    let focused = state.execute.form.focus;
    let focus = LINES.iter().position(|fields| fields.contains(&focused)).unwrap_or(0);
    let n_fit = usize::from(inside.height.saturating_sub(y + 2)).max(1);
    let first = if is_roomy { 0 } else { first_row(focus, LINES.len(), n_fit) };
    let mut focused_y = 0;
    for fields in LINES.iter().skip(first) {
        if y >= inside.height {
            break;
        }
        if fields.contains(&focused) {
            focused_y = y;
        }
        y = draw_line(inside, buf, frame, fields, y);
    }
    // There is space below the fields for the request, the buttons and a few recent runs.
    let is_open = is_roomy || inside.height.saturating_sub(y) >= 13;
    if is_open {
        y = draw_preview(inside, buf, frame, y + u16::from(!is_roomy));
    }
    let [_, below] = split_rows(inside, y);
    draw_buttons(below, buf, frame);
    if is_open {
        draw_recent(split_rows(below, 2)[1], buf, frame);
    }
    if state.execute.is_form_edited() && state.execute.form.is_open {
        let [_, below] = split_rows(inside, focused_y + 1);
        draw_known(below, buf, frame);
    }
}

/// Draws the head that executes new runs. Returns the row below.
fn draw_head(area: Rect, buf: &mut Buffer, frame: Frame<'_>, y: u16, is_roomy: bool) -> u16 {
    let Frame { state, theme, .. } = frame;
    paint::text(buf, area, (0, y), &format::right("head", LABEL_WIDTH.into()), theme.muted);
    let is_starting = state.stack.phase == stack::Phase::Starting;
    let unknown = if is_starting { "starting here" } else { "none known" };
    let address = state.form_head().unwrap_or(unknown);
    let x = paint::text(buf, area, (LABEL_WIDTH + 2, y), address, theme.text);
    let origin = match state.services.head_count() {
        Some((0, n_heads)) => format!("none of {n_heads} heads responds"),
        Some((_, n_heads)) => format!("first of {n_heads} that responds"),
        None if state.stack.summary().is_some() => "local stack".to_owned(),
        None => match &state.profiles.current {
            Some(profile) => format!("from profile {profile}"),
            None => "from --head or TRIPTYCH_HEAD".to_owned(),
        },
    };
    let room = area.width.saturating_sub(x + 2);
    if state.form_head().is_some() && usize::from(room) >= origin.len() {
        paint::text(buf, area, (x + 2, y), &origin, theme.muted);
    }
    y + 1 + u16::from(is_roomy)
}

/// Returns true if a form in `area` has space for hints below its fields.
const fn is_roomy(area: Rect) -> bool {
    area.height >= 30
}

/// Draws the fields of a line side by side, with the most important of their notes. Returns the
/// row below.
fn draw_line(area: Rect, buf: &mut Buffer, frame: Frame<'_>, fields: &[FormField], y: u16) -> u16 {
    let Frame { state, theme, .. } = frame;
    let (form, context) = (&state.execute.form, state.cluster_context());
    let n_fields = u16::try_from(fields.len()).unwrap_or(1).max(1);
    let width = area.width / n_fields;
    let mut notes = Vec::new();
    for (idx, field) in (0..n_fields).zip(fields) {
        let place = match field {
            // The source is a short word. The remaining space is for the field of standard input.
            FormField::Source => Rect { width: area.width.min(SOURCE_WIDTH), ..area },
            FormField::Stdin => split_columns(area, SOURCE_WIDTH)[1],
            _ => Rect { x: area.x.saturating_add(idx * width), width, ..area },
        };
        let check = form.check(*field, context);
        draw_input(split_rows(place, y)[1], buf, frame, *field, &check);
        let is_here = state.execute.focus == Pane::Form && form.focus == *field;
        let (_, style) = mark(&check, theme);
        // An error is more important than the hint of the focused field.
        notes.push(match check {
            Check::Fit(note) => (u8::from(is_here), note, theme.muted),
            Check::Doubtful(note) | Check::Unfit(note) if form.place(*field).is_left => {
                (2, format!("└ {note}"), style)
            }
            _ => (0, String::new(), theme.muted),
        });
    }
    let is_roomy = is_roomy(area);
    let gap = u16::from(is_roomy && area.height > 40);
    let best = notes.into_iter().rev().max_by_key(|(rank, ..)| *rank);
    let Some((rank, text, style)) = best.filter(|(rank, ..)| is_roomy || *rank > 1) else {
        return y + 1 + u16::from(is_roomy) + gap;
    };
    let room = area.width.saturating_sub(LABEL_WIDTH + 2);
    // An error is shown in full. A hint is cut if it does not fit.
    let lines = match rank {
        2 => wrapped(&text, room),
        _ => vec![format::fit(&text, room.into()).into_owned()],
    };
    let mut y = y + 1;
    // An error has at most four rows.
    for line in lines.iter().take(4) {
        paint::text(buf, area, (LABEL_WIDTH + 2, y), line, style);
        y += 1;
    }
    y + gap
}

fn draw_input(area: Rect, buf: &mut Buffer, frame: Frame<'_>, field: FormField, check: &Check) {
    let Frame { state, theme, .. } = frame;
    let form = &state.execute.form;
    let is_here = state.execute.focus == Pane::Form && form.focus == field;
    let is_choice = field == FormField::Source;
    let label = field.into_str();
    let labelled = LabelledField {
        label,
        label_width: if label.is_empty() { 0 } else { LABEL_WIDTH },
        width: match field {
            FormField::Nodes | FormField::Timeout | FormField::RunLimit => 10,
            FormField::Subgroup => 24,
            FormField::Source => SOURCE_WIDTH,
            _ => area.width,
        },
        is_focused: is_here,
        has_caret: is_here && state.execute.is_form_edited(),
        ground: theme.bar,
        choice: is_choice.then(|| form.source.into_str()),
        text: &form.place(field).text,
    };
    // Space for the mark that follows a text.
    let width = area.width.saturating_sub(if is_choice { 0 } else { 2 });
    let place = labelled.draw(Rect { width, ..area }, buf, theme);
    frame.hits.add(place, Target::Row { pane: Pane::Form.number(), row: field as usize });
    let is_shown = match check {
        Check::Fit(_) => !form.text(field).is_empty(),
        Check::Doubtful(_) => form.place(field).is_left && !form.text(field).is_empty(),
        Check::Unfit(_) => form.place(field).is_left,
    };
    if is_shown && !is_choice {
        let (mark, style) = mark(check, theme);
        paint::text(buf, area, (place.right().saturating_sub(area.x) + 1, 0), mark, style);
    }
}

fn mark(check: &Check, theme: &Theme) -> (&'static str, Style) {
    match check {
        Check::Fit(_) => ("✓", theme.up),
        Check::Doubtful(_) => ("!", theme.warn),
        Check::Unfit(_) => ("✗", theme.down),
    }
}

/// Draws the known functions or datasets with names that contain the text of the focused field.
fn draw_known(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let form = &state.execute.form;
    let (left, (rows, selected)) = match form.focus {
        FormField::Function => (LABEL_WIDTH + 1, known_functions(form, theme)),
        FormField::Stdin => {
            let (found, selected) = form.dataset_matches();
            let rows = found.into_iter().map(|name| (name.clone(), String::new(), theme.muted));
            (SOURCE_WIDTH, (rows.collect(), selected))
        }
        _ => return,
    };
    let [_, area] = split_columns(area, left);
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX).min(CHOICES_MAX).min(area.height);
    let place = Rect { width: area.width.saturating_sub(3), height, ..area };
    theme.clear(place, buf);
    buf.set_style(place, theme.sel);
    let first = first_row(selected.unwrap_or(0), rows.len(), height.into());
    for (place, (idx, (name, detail, color))) in place.rows().zip((0..).zip(rows).skip(first)) {
        let is_it = selected == Some(idx);
        let style = if is_it { theme.focus.bold() } else { theme.text };
        let mark = Span::styled(if is_it { "▸ " } else { "  " }, theme.focus);
        let line = [mark, Span::styled(name, style), Span::styled(detail, color)];
        paint::line_cut(buf, place, (0, 0), &Line::from_iter(line));
    }
}

/// A known value of a field: its name, a detail, and the style of the detail.
type Known = (String, String, Style);

/// Returns the known functions with names that contain the typed text, and the index of the selected
/// function.
fn known_functions(form: &Form, theme: &Theme) -> (Vec<Known>, Option<usize>) {
    let (found, selected) = form.matches();
    let row = |function: &FunctionBody| {
        let names: Vec<&str> = form.names_of(function).collect();
        let (detail, style) = if function.by_manifest.is_empty() {
            let id = format::short_cid(&function.function_id);
            let size =
                if function.bytes > 0 { format::bytes(function.bytes) } else { String::new() };
            (format!(" {id}  {}", format::right(&size, 9)), theme.muted)
        } else {
            // The head computed these ids from manifests, which do not verify the content.
            (format!(" by manifest: {}", function.by_manifest.join(", ")), theme.warn)
        };
        (format::left(&names.join(" · "), 20), detail, style)
    };
    (found.into_iter().map(row).collect(), selected)
}

fn draw_preview(area: Rect, buf: &mut Buffer, frame: Frame<'_>, y: u16) -> u16 {
    let theme = frame.theme;
    paint::text(buf, area, (0, y), &format::right("request", LABEL_WIDTH.into()), theme.muted);
    let text = preview(&frame.state.execute.form.preview());
    // A long request is cut, so that the buttons remain visible.
    let end = y + area.height.saturating_sub(y + 2).min(14);
    let mut row = y;
    for line in text.lines().take(usize::from(end - y)) {
        text_cut(buf, area, (LABEL_WIDTH + 1, row), line, theme.muted);
        row += 1;
    }
    row + 1
}

/// Formats a request as JSON, with one line for each of its fields.
fn preview(request: &ExecuteRequest) -> String {
    let Ok(Value::Object(parts)) = serde_json::to_value(request) else { return String::new() };
    let mut parts: Vec<_> = parts.into_iter().collect();
    let first = ["function_id", "method", "parameters"];
    parts.sort_by_key(|(name, _)| first.iter().position(|it| it == name).unwrap_or(first.len()));
    let line = |(name, part): &(String, Value)| format!("  \"{name}\": {part}");
    format!("{{\n{}\n}}", parts.iter().map(line).collect::<Vec<_>>().join(",\n"))
}

fn draw_buttons(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let theme = frame.theme;
    let mut x = LABEL_WIDTH + 1;
    let buttons = [
        ("Run", Action::Run, theme.tag(theme.focus)),
        ("Save preset", Action::SavePreset, theme.sel.patch(theme.text)),
        ("Copy as curl", Action::CopyCurl, theme.sel.patch(theme.text)),
    ];
    for (words, action, style) in buttons {
        let key = frame.state.keys.key_of(Layer::Form, action);
        let text = key.map_or_else(|| format!(" {words} "), |key| format!(" {key} {words} "));
        // A button that does not fit is omitted. The help lists its key.
        if usize::from(x) + text.width() > area.width.into() {
            break;
        }
        let end = paint::text(buf, area, (x, 0), &text, style);
        frame.hits.add(strip(area, (x, 0), end.saturating_sub(x)), Target::Action(action));
        x = end + 2;
    }
}

fn draw_recent(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    if state.runs.iter().len() == 0 || area.height < 3 {
        return;
    }
    paint::text(buf, area, (0, 0), "Recent", theme.text.bold());
    // Names are cut, so that the outcome of each run is visible.
    let (name_width, group_width) = if area.width < 56 { (8, 1) } else { (16, 8) };
    for (y, run) in (1..area.height).zip(state.runs.iter()) {
        let request = &run.request;
        let (_, style) = results::mark(run, frame);
        let name = state.execute.form.name_of(request).unwrap_or(&request.method);
        let group = workers_text(request);
        let text = format!(
            "{} {}  {:>3} {} ",
            format::clock(run.sent_at),
            format::left(name, name_width),
            request.config.number_of_nodes,
            format::left(group.as_deref().unwrap_or("*"), group_width)
        );
        let x = paint::text(buf, area, (0, y), &text, theme.muted);
        text_cut(buf, area, (x + 1, y), &run.words(), style);
    }
}
