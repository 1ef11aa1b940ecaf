//! The form: its fields, what is to be said about them, and the request they make.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;
use wire::functions::ExecuteRequest;

use crate::{
    action::Action,
    event::Target,
    keymap::Layer,
    screens::execute::state::{Check, FORM, FormField, Pane},
    state::{
        runs::{Phase, workers_text},
        services::HeadCount,
        stack,
    },
    theme::Theme,
    view::{
        Frame, Tier, field::LabelledField, focus_if, hits::Hits, results, split_columns,
        split_rows, strip, text_cut, wrap::wrapped,
    },
    widget::{format, paint, pane},
};

/// Columns of the labels.
const LABEL_WIDTH: u16 = 11;

/// The least rows below the fields for the request, the buttons and a few recent runs.
const BELOW_MIN: u16 = 13;

/// The most functions or datasets listed below a field.
const CHOICES_MAX: u16 = 8;

/// Columns of the word that says where standard input comes from, and of its label.
const SOURCE_WIDTH: u16 = LABEL_WIDTH + 12;

/// The most rows of what is wrong with a field.
const NOTE_ROWS_MAX: usize = 4;

/// The fields, line by line.
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

pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let Frame { state, theme, tier } = frame;
    hits.add(area, Target::Pane(FORM));
    let is_focused = state.execute.focus == Pane::Form;
    let info = if tier >= Tier::Large { wire::paths::FUNCTIONS_EXECUTE } else { "" };
    let info = if info.is_empty() { String::new() } else { format!("POST {info}") };
    let frame_of_pane = pane::Pane::new("Execute function").info(info).focus(focus_if(is_focused));
    let inside = frame_of_pane.draw(area, buf, theme);
    // A line between fields where there is room for it, and what is to be said below each.
    let is_roomy = is_roomy(inside);
    let mut y = u16::from(is_roomy);
    y = draw_head(inside, buf, frame, y, is_roomy);
    // Only so many fields fit a low pane; the focused one is among them.
    let focused = state.execute.form.focus;
    let focus = LINES.iter().position(|fields| fields.contains(&focused));
    let first = if is_roomy {
        0
    } else {
        let n_fit = usize::from(inside.height.saturating_sub(y + 2)).max(1);
        crate::view::table::first_row(focus.unwrap_or(0), LINES.len(), n_fit)
    };
    let (mut function_y, mut stdin_y) = (None, None);
    for fields in LINES.iter().skip(first) {
        if y >= inside.height {
            break;
        }
        if fields.contains(&FormField::Function) {
            function_y = Some(y);
        }
        if fields.contains(&FormField::Stdin) {
            stdin_y = Some(y);
        }
        y = draw_line(inside, buf, frame, fields, y, hits);
    }
    // Fields close together leave room below as well, on a pane that is high enough.
    let is_open = is_roomy || inside.height.saturating_sub(y) >= BELOW_MIN;
    if is_open {
        y = draw_preview(inside, buf, frame, y + u16::from(!is_roomy));
    }
    let [_, below] = split_rows(inside, y);
    draw_buttons(below, buf, frame, hits);
    let [_, below] = split_rows(below, 2);
    if is_open {
        draw_recent(below, buf, frame);
    }
    if !(state.execute.is_form_edited() && state.execute.form.is_open) {
        return;
    }
    match (focused, function_y, stdin_y) {
        (FormField::Function, Some(y), _) => {
            draw_functions(split_rows(inside, y + 1)[1], buf, frame);
        }
        (FormField::Stdin, _, Some(y)) => {
            draw_datasets(split_rows(inside, y + 1)[1], buf, frame);
        }
        _ => {}
    }
}

/// The head that a run goes to; it is the profile's, not the form's to change.
fn draw_head(area: Rect, buf: &mut Buffer, frame: Frame<'_>, y: u16, is_roomy: bool) -> u16 {
    let Frame { state, theme, .. } = frame;
    paint::text(buf, area, (0, y), &format::right("head", LABEL_WIDTH.into()), theme.muted);
    let address = state.form_head().unwrap_or({
        if state.stack.phase == stack::Phase::Starting { "starting here" } else { "none known" }
    });
    let x = paint::text(buf, area, (LABEL_WIDTH + 2, y), address, theme.text);
    let origin = match state.services.head_count() {
        Some(HeadCount { n_heads, n_live: 0 }) => format!("none of {n_heads} heads answers"),
        Some(HeadCount { n_heads, .. }) => format!("first of {n_heads} that answers"),
        None if state.stack.summary().is_some() => "local stack".to_owned(),
        None => "from the profile".to_owned(),
    };
    let room = area.width.saturating_sub(x + 2);
    if state.form_head().is_some() && usize::from(room) >= origin.len() {
        paint::text(buf, area, (x + 2, y), &origin, theme.muted);
    }
    y + 1 + u16::from(is_roomy)
}

/// Whether a form in `area` has room for its notes.
const fn is_roomy(area: Rect) -> bool {
    area.height >= 30
}

/// Draws fields side by side, and what is to be said about them; returns the row after them.
fn draw_line(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    fields: &[FormField],
    y: u16,
    hits: &mut Hits,
) -> u16 {
    let Frame { state, theme, .. } = frame;
    let (form, context) = (&state.execute.form, state.cluster_context());
    let n_fields = u16::try_from(fields.len()).unwrap_or(1).max(1);
    let width = area.width / n_fields;
    let mut note: Option<(u8, String, Style)> = None;
    for (idx, field) in (0..n_fields).zip(fields) {
        let place = match field {
            // The source is a word, and its text needs the room.
            FormField::Source => Rect { width: area.width.min(SOURCE_WIDTH), ..area },
            FormField::Stdin => split_columns(area, SOURCE_WIDTH.min(area.width))[1],
            _ => Rect { x: area.x.saturating_add(idx * width), width, ..area },
        };
        let check = form.check(*field, context);
        draw_form_field(split_rows(place, y)[1], buf, frame, *field, &check, hits);
        let is_here = state.execute.focus == Pane::Form && form.focus == *field;
        let (_, style) = mark(&check, theme);
        // What is wrong comes first, then what concerns the field that keys go to.
        let (rank, text, style) = match check {
            Check::Fit(note) => (u8::from(is_here), note, theme.muted),
            Check::Doubtful(note) | Check::Unfit(note) if form.place(*field).is_left => {
                (2, format!("└ {note}"), style)
            }
            _ => (0, String::new(), theme.muted),
        };
        if note.as_ref().is_none_or(|(best, ..)| rank > *best) {
            note = Some((rank, text, style));
        }
    }
    let is_roomy = is_roomy(area);
    let gap = u16::from(is_roomy && area.height > 40);
    match note {
        Some((rank, text, style)) if is_roomy || rank > 1 => {
            let room = area.width.saturating_sub(LABEL_WIDTH + 2);
            // What is wrong is said in whole; what only explains a field may be cut.
            let lines = if rank > 1 {
                wrapped(&text, room)
            } else {
                vec![format::fit(&text, room.into()).into_owned()]
            };
            let mut y = y + 1;
            for line in lines.iter().take(NOTE_ROWS_MAX) {
                paint::text(buf, area, (LABEL_WIDTH + 2, y), line, style);
                y += 1;
            }
            y + gap
        }
        _ => y + 1 + u16::from(is_roomy) + gap,
    }
}

fn draw_form_field(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    field: FormField,
    check: &Check,
    hits: &mut Hits,
) {
    let Frame { state, theme, .. } = frame;
    let form = &state.execute.form;
    let is_here = state.execute.focus == Pane::Form && form.focus == field;
    let is_choice = field == FormField::Source;
    let label = field.into_str();
    let of = LabelledField {
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
    // The mark stands after a text.
    let width = area.width.saturating_sub(if is_choice { 0 } else { 2 });
    let place = of.draw(Rect { width, ..area }, buf, theme);
    hits.add(place, Target::Row { pane: FORM, row: field as usize });
    let is_told = form.place(field).is_left || matches!(check, Check::Fit(_));
    let (mark, style) = mark(check, theme);
    let is_empty = form.text(field).is_empty();
    if is_told && !is_choice && !(is_empty && check.is_fit()) {
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

/// Lists the known functions whose names hold what is typed.
fn draw_functions(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let (found, selected) = state.execute.form.matches();
    let [_, area] = split_columns(area, LABEL_WIDTH + 1);
    draw_choices(area, buf, theme, found.len(), selected, |buf, place, idx, style| {
        let Some(function) = found.get(idx) else { return };
        let names: Vec<&str> = state.execute.form.names_of(function).collect();
        let x = paint::text(buf, place, (2, 0), &format::left(&names.join(" · "), 20), style) + 1;
        if function.by_manifest.is_empty() {
            let id = format::short_cid(&function.function_id);
            let x = paint::text(buf, place, (x, 0), &id, theme.muted) + 2;
            if function.bytes > 0 {
                let size = format::right(&format::bytes(function.bytes), 9);
                paint::text(buf, place, (x, 0), &size, theme.muted);
            }
        } else {
            // Ids that prove nothing of the content, in place of the one that does.
            let ids = format!("by manifest: {}", function.by_manifest.join(", "));
            text_cut(buf, place, (x, 0), &ids, theme.warn);
        }
    });
}

/// Lists the datasets whose names hold what is typed.
fn draw_datasets(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (found, selected) = frame.state.execute.form.dataset_matches();
    let [_, area] = split_columns(area, SOURCE_WIDTH);
    draw_choices(area, buf, frame.theme, found.len(), selected, |buf, place, idx, style| {
        let Some(name) = found.get(idx) else { return };
        text_cut(buf, place, (2, 0), name, style);
    });
}

/// Draws rows below a field, the `selected` one marked; `draw_row` draws each, in its style.
fn draw_choices(
    area: Rect,
    buf: &mut Buffer,
    theme: &Theme,
    n_found: usize,
    selected: Option<usize>,
    draw_row: impl Fn(&mut Buffer, Rect, usize, Style),
) {
    let height = u16::try_from(n_found).unwrap_or(u16::MAX).min(CHOICES_MAX).min(area.height);
    let place = Rect { width: area.width.saturating_sub(3), height, ..area };
    theme.clear(place, buf);
    buf.set_style(place, theme.sel);
    let first = crate::view::table::first_row(selected.unwrap_or(0), n_found, height.into());
    for (row, idx) in place.rows().zip(first..n_found) {
        let is_it = selected == Some(idx);
        let style = if is_it { theme.focus.add_modifier(Modifier::BOLD) } else { theme.text };
        if is_it {
            paint::text(buf, row, (0, 0), "▸", theme.focus);
        }
        draw_row(buf, row, idx, style);
    }
}

fn draw_preview(area: Rect, buf: &mut Buffer, frame: Frame<'_>, y: u16) -> u16 {
    let theme = frame.theme;
    let request = frame.state.execute.form.preview();
    let text = preview(&request);
    let n_lines = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    // The buttons stay in view, whatever the request.
    let room = area.height.saturating_sub(y + 2);
    let n_shown = n_lines.min(room).min(14);
    paint::text(buf, area, (0, y), &format::right("request", LABEL_WIDTH.into()), theme.muted);
    for (row, line) in (y..y + n_shown).zip(text.lines()) {
        text_cut(buf, area, (LABEL_WIDTH + 1, row), line, theme.muted);
    }
    y + n_shown + 1
}

/// A request as JSON, a line for each of its parts.
fn preview(request: &ExecuteRequest) -> String {
    let Ok(Value::Object(parts)) = serde_json::to_value(request) else { return String::new() };
    let mut parts: Vec<_> = parts.into_iter().collect();
    // What is run comes before how.
    parts.sort_by_key(|(name, _)| match name.as_str() {
        "function_id" => 0,
        "method" => 1,
        "parameters" => 2,
        _ => 3,
    });
    let line = |(name, part): &(String, Value)| format!("  \"{name}\": {part}");
    let lines: Vec<String> = parts.iter().map(line).collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}

fn draw_buttons(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
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
        // One that does not fit is left out: its key is in the help.
        if usize::from(x) + text.width() > area.width.into() {
            break;
        }
        let end = paint::text(buf, area, (x, 0), &text, style);
        hits.add(strip(area, (x, 0), end.saturating_sub(x)), Target::Action(action));
        x = end + 2;
    }
}

fn draw_recent(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    if state.runs.iter().len() == 0 || area.height < 3 {
        return;
    }
    let form = &state.execute.form;
    let bold = theme.text.add_modifier(Modifier::BOLD);
    paint::text(buf, area, (0, 0), "Recent", bold);
    // What a run came to is in view, whatever it is called.
    let (name_width, group_width) = if area.width < 56 { (8, 1) } else { (16, 8) };
    for (y, run) in (1..area.height).zip(state.runs.iter()) {
        let request = &run.request;
        let bad_exit = run.bad_exit().map(|code| format!(" · exit {code}"));
        let good = if bad_exit.is_some() { theme.down } else { theme.up };
        let bad_exit = bad_exit.unwrap_or_default();
        let (result, style) = match &run.phase {
            Phase::Waiting => ("…".to_owned(), theme.info),
            Phase::Cancelled => ("cancelled".to_owned(), theme.muted),
            Phase::Failed(failure) => (failure.why.clone(), theme.down),
            Phase::Done(response) => match response.results.as_slice() {
                [] => ("no result".to_owned(), theme.warn),
                [group] => (results::frequency(group.frequency) + &bad_exit, good),
                [group, ..] => {
                    let n = response.results.len();
                    let frequency = results::frequency(group.frequency);
                    (format!("{frequency} · {n} groups{bad_exit}"), theme.warn)
                }
            },
        };
        let text = format!(
            "{} {}  {:>3} {} ",
            format::clock(run.sent_at),
            format::left(form.name_of(request).unwrap_or(&request.method), name_width),
            request.config.number_of_nodes,
            format::left(workers_text(request).as_deref().unwrap_or("*"), group_width)
        );
        let x = paint::text(buf, area, (0, y), &text, theme.muted);
        text_cut(buf, area, (x + 1, y), &result, style);
    }
}
