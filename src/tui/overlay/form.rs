//! Forms: opens, submits and draws them, and handles the responses of the services.

use std::path::Path;

use ratatui::prelude::*;

use crate::event::{Effect, Preparation, Prepared, Target};
use crate::keymap::{Action, Layer};
use crate::local::Level;
use crate::overlay::save::ExportTable;
use crate::overlay::view::raise;
use crate::overlay::{keys, profiles};
use crate::screens::update::send_copy;
use crate::screens::{Screen, cluster, execute};
use crate::state::State;
use crate::state::change::{Change, Changed};
use crate::state::field::Field;
use crate::state::form::{FieldKind, Form, FormField, Purpose, Step, datasets, topics};
use crate::state::overlay::Overlay;
use crate::state::resource::{Failure, Outcome};
use crate::view::table::first_row;
use crate::view::{Frame, LabelledField, centered, spinner, split_rows, strip, text_cut, wrapped};
use crate::widget::format::counted;
use crate::widget::paint;
use crate::widget::pane::Pane;

/// Opens the form for a new rule for alerts that suggests `rule`.
pub(crate) fn open_alert(state: &mut State, rule: &str) {
    let field = FormField::new("rule", "conditions: triptych watch --help", rule).required();
    let field = field.checked(|text| {
        let error = alerts::rules::section_of(text).err()?;
        Some(format!("the rule is invalid: {error}"))
    });
    state.open_form(Form::new(Purpose::Alert, "Add an alert", "Add", vec![field]));
}

/// Opens the form for a new preset that suggests `name`.
pub(crate) fn open_preset(state: &mut State, name: &str) {
    let hint = "values of variables named KEY, TOKEN etc. are left out";
    let field = FormField::new("name", hint, name).required();
    state.open_form(Form::new(Purpose::Preset, "Save preset", "Save", vec![field]));
}

/// Opens the form for the path of the file to which `shown` is written. If `shown` is `None`, the
/// visible table is written.
pub(crate) fn open_save(state: &mut State, shown: Option<String>, path: &str) {
    let hint = match shown {
        Some(_) => "writes it as it is shown",
        None => "writes it as CSV, or JSON for .json",
    };
    let field = FormField::new("file", hint, path).required();
    state.open_form(Form::new(Purpose::Save(shown), "Save the current view", "Save", vec![field]));
}

/// Opens the form of an action on datasets or topics, and checks if the action is possible. Reports why
/// it is not, if that is known. Returns false for other actions.
pub(crate) fn begin(state: &mut State, action: Action) -> bool {
    let (dataset, topic) = match action {
        Action::CreateDataset | Action::Import | Action::CreateTopic => (None, None),
        Action::EditDataset | Action::DeleteDataset => (state.data.selected, None),
        Action::EditTopic | Action::DeleteTopic => (None, state.inference.selected),
        Action::Export if state.screen == Screen::Data => {
            if let Some(path) = state.data.export_path() {
                state.open_form(datasets::export_form(&path));
            }
            return true;
        }
        _ => return false,
    };
    let form = match action {
        // The form opens when the current settings are loaded.
        Action::EditDataset => dataset.map(|_| Form::waiting("Dataset")),
        Action::EditTopic => topic.map(|_| Form::waiting("Topic")),
        _ => form_of(state, action, Prepared::default()),
    };
    let title = action.title();
    if state.services.addresses.api_key.is_none() {
        let key = state.keys.key_text(Layer::Global, Action::Profiles);
        let detail = format!("press {key} to enter a key");
        state.notify_refused(format!("{title}: no API key is in use"), detail);
    } else if let Some(form) = form {
        let preparation = Preparation { action, dataset, topic };
        state.open_form(Form { preparation: Some(preparation), ..form });
        state.effects.push(Effect::Prepare(preparation));
    } else {
        state.notify_refused(format!("{title}: nothing is selected"), "");
    }
    true
}

/// Handles the result of the check that `preparation` requested, unless its form was closed. A form that
/// waits for settings is replaced, or closed if its dataset or topic is no longer selected. A failure is
/// shown in the form, unless the form was submitted.
pub(crate) fn on_prepared(state: &mut State, preparation: Preparation, result: Outcome<Prepared>) {
    let is_selected = preparation.dataset.is_none_or(|it| state.data.selected == Some(it))
        && preparation.topic.is_none_or(|it| state.inference.selected == Some(it));
    let prepared =
        result.map(|settings| form_of(state, preparation.action, settings).filter(|_| is_selected));
    let open = state.overlays.iter_mut().enumerate().find_map(|(idx, overlay)| match overlay {
        Overlay::Form(form) if form.preparation == Some(preparation) => Some((idx, form)),
        _ => None,
    });
    let Some((idx, form)) = open else { return };
    let is_waiting = form.purpose == Purpose::Wait;
    match prepared {
        Ok(Some(ready)) if is_waiting => **form = ready,
        Ok(None) if is_waiting => drop(state.overlays.remove(idx)),
        Ok(_) => form.preparation = None,
        Err(failure) if is_waiting || !form.is_sent() => form.step = Step::Failed(failure),
        Err(_) => {}
    }
}

/// Returns the form of `action` for the selected dataset or topic.
fn form_of(state: &State, action: Action, prepared: Prepared) -> Option<Form> {
    let (data, inference) = (&state.data, &state.inference);
    let name = data.dataset().map_or("", |dataset| dataset.name.as_str());
    Some(match action {
        Action::CreateDataset => datasets::create_form(),
        Action::EditDataset => {
            let dataset = data.dataset()?.clone();
            let Prepared { tags, columns, .. } = prepared;
            datasets::edit_form(datasets::Edited { dataset, tags, columns })
        }
        Action::DeleteDataset => datasets::delete_form(data.dataset()?),
        Action::Import => datasets::import_form(data.dataset()),
        Action::CreateTopic => {
            let shape = data.shape();
            let column = shape.as_ref().and_then(|shape| shape.value_column());
            topics::create_form(name, column.unwrap_or_default())
        }
        Action::EditTopic => topics::edit_form(topics::Edited {
            topic: inference.selected?,
            settings: *prepared.settings?,
            is_paused: inference.topic()?.is_paused,
        }),
        Action::DeleteTopic => topics::delete_form(inference.selected?, &inference.topic()?.name),
        _ => return None,
    })
}

/// Handles an action in the form on top. Returns false if no form is on top.
pub(crate) fn act(state: &mut State, action: Action) -> bool {
    let Some(Overlay::Form(form)) = state.overlays.last_mut() else { return false };
    match action {
        Action::NextField => form.move_focus(1),
        Action::PreviousField => form.move_focus(-1),
        Action::NextChoice => form.choose(1),
        Action::PreviousChoice => form.choose(-1),
        _ => {}
    }
    true
}

/// Submits the form on top if its fields are valid.
pub(crate) fn submit(state: &mut State) {
    let Some(Overlay::Form(form)) = state.overlays.last_mut() else { return };
    if form.is_sent() || !form.is_valid() {
        return;
    }
    let form = form.clone();
    match &form.purpose {
        Purpose::Alert => {
            let Ok(section) = alerts::rules::section_of(form.value("rule")) else { return };
            state.effects.push(Effect::AddRule(section));
        }
        Purpose::Report(None) => {
            state.close();
            return;
        }
        Purpose::Report(Some(_)) => return send_copy(state, form.report_text()),
        Purpose::Wait => state.effects.extend(form.preparation.map(Effect::Prepare)),
        Purpose::Preset => return execute::update::keep_preset(state, form.value("name")),
        Purpose::Save(shown) => save(state, form.value("file"), shown.clone()),
        Purpose::Export => {
            state.close();
            return state.data.begin_export(form.value("file"), form.value("range"));
        }
        Purpose::AddNode { .. } => return cluster::processes::start(state, &form),
        Purpose::Key(profile) => {
            if !profiles::try_key(state, profile.clone(), form.value("key")) {
                return;
            }
        }
        _ => {
            let Some(change) = form.change() else { return };
            if let (Purpose::EditDataset(before), Change::EditDataset(edit)) =
                (&form.purpose, &change)
                && let Some(deletions) = datasets::deletions(before, edit)
            {
                return state.open_form(datasets::confirm_form(edit.clone(), &deletions));
            }
            if let Change::DeleteDataset { dataset, .. } = change {
                state.data.deleted = Some(dataset);
            }
            state.effects.push(Effect::Change(change));
        }
    }
    set_step(state, Step::Sent(String::new()));
}

/// Writes `shown` to the file at `path`, or the table of the current screen if `shown` is `None`. The
/// table is CSV unless the path has the extension `.json`.
fn save(state: &mut State, path: &str, shown: Option<String>) {
    let is_json = path.to_lowercase().ends_with(".json");
    let (text, what) = if let Some(text) = shown {
        let n_lines = counted(text.lines().count(), "line");
        (text, n_lines)
    } else {
        let table = ExportTable::for_screen(state);
        (table.text(is_json), counted(table.rows.len(), "row"))
    };
    state.effects.push(Effect::Save { path: path.into(), text, what });
}

/// Handles the result of writing the current view to the file at `path`.
pub(crate) fn on_saved(state: &mut State, path: &Path, what: String, result: Outcome<()>) {
    if settle(state, result, |purpose| matches!(purpose, Purpose::Save(_))) {
        state.notify(format!("saved to {}", path.display()), what);
    }
}

/// Closes the form on top after a success if it was sent and `has_sent` its purpose. After a failure,
/// the form stays open and shows it. Returns true after a success.
pub(crate) fn settle(
    state: &mut State,
    result: Outcome<()>,
    has_sent: impl Fn(&Purpose) -> bool,
) -> bool {
    let is_open = matches!(
        state.overlays.last(), Some(Overlay::Form(form)) if form.is_sent() && has_sent(&form.purpose)
    );
    let is_done = result.is_ok();
    match result {
        Ok(()) if is_open => _ = state.close(),
        Ok(()) => {}
        Err(failure) if is_open => set_step(state, Step::Failed(failure)),
        Err(failure) => state.notify_failure(&failure),
    }
    is_done
}

fn set_step(state: &mut State, step: Step) {
    if let Some(Overlay::Form(form)) = state.overlays.last_mut() {
        form.step = step;
    }
}

/// Cancels the import of the form on top, which stays open. Returns false if there is none.
pub(crate) fn cancel(state: &mut State) -> bool {
    let Some(Overlay::Form(form)) = state.overlays.last_mut() else { return false };
    let change = form.change().filter(|_| form.is_sent() && form.is_import());
    let Some(change) = change else { return false };
    let next = "rows that were sent are stored; the same import continues after them";
    form.step = Step::Failed(Failure::new(change.what(), "it was cancelled", next));
    state.effects.push(Effect::DropChange(change));
    true
}

/// Shows the progress of the import whose form is open.
pub(crate) fn on_progress(state: &mut State, progress: &str) {
    for overlay in &mut state.overlays {
        if let Overlay::Form(form) = overlay
            && form.is_import()
            && let Step::Sent(text) = &mut form.step
        {
            progress.clone_into(text);
        }
    }
}

/// Handles the outcome of a change. Closes its form after a success, and shows a failure in it. The
/// form can be below other overlays.
pub(crate) fn on_changed(state: &mut State, change: &Change, result: Outcome<Changed>) {
    let requests = |form: &Form| form.change().as_ref() == Some(change);
    let sent = state.overlays.iter_mut().rev().find_map(|overlay| match overlay {
        Overlay::Form(form) if form.is_sent() && requests(form) => Some(form),
        _ => None,
    });
    let is_open = sent.is_some();
    let changed = match result {
        Ok(changed) => changed,
        Err(failure) => {
            if matches!(change, Change::DeleteDataset { .. }) {
                state.data.deleted = None;
            }
            match sent {
                Some(form) => form.step = Step::Failed(failure.clone()),
                None => state.notify_failure(&failure),
            }
            return keys::on_failure(state, change, &failure);
        }
    };
    // A form that asks for confirmation is above the form with the same change.
    state.overlays.retain(|it| !matches!(it, Overlay::Form(form) if requests(form)));
    state.notify(change.done(), "");
    let now = state.now;
    match (changed, change) {
        (Changed::Done, Change::DeleteDataset { .. }) => state.data.reload_list(),
        (Changed::Done, Change::DeleteTopic { .. }) => state.inference.reload_list(now),
        (Changed::Done, _) => {}
        (Changed::Dataset(dataset), _) => state.data.changed(dataset, now),
        (Changed::Topic(topic), _) => state.inference.changed(topic, now),
        (Changed::Keys(account, created), _) => {
            keys::on_keys(state, change, account, created);
            if is_open && matches!(change, Change::LogIn { .. }) {
                state.open(Overlay::Keys(0));
            }
        }
        (Changed::Imported(dataset, text), _) => {
            if let Some(dataset) = dataset {
                state.data.changed(dataset, now);
            }
            for line in text.lines() {
                state.logs.log(Level::Info, now, line.to_owned());
            }
            if is_open {
                state.open_form(Form::report("Import", text, None));
            }
        }
    }
}

/// Maximum width of a form. A multiaddress fits into it.
const WIDTH_MAX: u16 = 104;

/// Maximum number of lines of a failure.
const FAILURE_LINES: usize = 6;

/// Draws `form` in the middle of `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, form: &Form) {
    let theme = frame.theme;
    let width = WIDTH_MAX.min(area.width.saturating_sub(2));
    let room = width.saturating_sub(4);
    let mut intro: Vec<String> = form.intro.lines().flat_map(|line| wrapped(line, room)).collect();
    if let Purpose::Report(Some(secret)) = &form.purpose {
        intro.push(secret.0.clone());
    }
    if !intro.is_empty() && !form.fields.is_empty() {
        intro.push(String::new());
    }
    let (message, style) = message(form, frame, room);
    let count = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let (n_fields, n_intro, n_message) =
        (count(form.fields.len()), count(intro.len()), count(message.len()));
    // The border, the button with an empty line above it, and an empty line before a message.
    let fixed = 4 + n_intro + n_message + u16::from(n_message > 0);
    // With enough space, the hint of each field is below the field. Otherwise, only the hint of the
    // focused field is shown, below all fields.
    let is_roomy = area.height >= fixed.saturating_add(n_fields * 2);
    let pitch = 1 + u16::from(is_roomy);
    let n_hints = u16::from(!is_roomy);
    let shown = (area.height.saturating_sub(fixed + n_hints) / pitch).clamp(1, n_fields.max(1));
    let shown = shown.min(n_fields);
    let height = (fixed + n_hints + shown * pitch).min(area.height);
    let first = first_row(form.focus, form.fields.len(), shown.into());
    let title = if shown < n_fields {
        let last = usize::from(shown) + first;
        format!("{} · fields {}–{last} of {n_fields}", form.title, first + 1)
    } else {
        form.title.clone()
    };
    let inside = raise(centered(area, width, height), buf, frame, Pane::new(title));
    let intro_style = if form.layer() == Layer::Report { theme.text } else { theme.muted };
    for (y, line) in (0..inside.height.saturating_sub(2)).zip(&intro) {
        paint::text(buf, inside, (0, y), line, intro_style);
    }
    let mut y = n_intro;
    for idx in (first..form.fields.len()).take(shown.into()) {
        let [_, below] = split_rows(inside, y);
        draw_form_field(below, buf, frame, form, idx);
        if is_roomy {
            draw_hint(split_rows(below, 1)[1], buf, frame, form, idx);
        }
        y += pitch;
    }
    if !is_roomy {
        draw_hint(split_rows(inside, y)[1], buf, frame, form, form.focus);
        y += 1;
    }
    if n_message > 0 {
        for (y, line) in (y + 1..).zip(&message) {
            paint::text(buf, inside, (0, y), line, style);
        }
    }
    draw_buttons(inside, buf, frame, form);
}

/// Returns the lines and the style of the message of a form: its failure or its progress.
fn message(form: &Form, frame: Frame<'_>, width: u16) -> (Vec<String>, Style) {
    let theme = frame.theme;
    match &form.step {
        Step::Typed => (Vec::new(), theme.muted),
        Step::Sent(progress) => {
            let progress = match progress.as_str() {
                "" if form.is_import() || form.purpose == Purpose::Wait => {
                    "waiting for the service"
                }
                "" => "waiting for the service, also after this form is closed",
                progress => progress,
            };
            (vec![format!("{} {progress}", spinner(frame.state.now))], theme.info)
        }
        Step::Failed(Failure { what, why, next, .. }) => {
            let text = format!("✗ failed to {what}: {why}");
            let mut lines = wrapped(&text, width);
            lines.truncate(FAILURE_LINES);
            lines.extend(Some(next).filter(|next| !next.is_empty()).cloned());
            (lines, theme.down)
        }
    }
}

fn draw_form_field(area: Rect, buf: &mut Buffer, frame: Frame<'_>, form: &Form, idx: usize) {
    let Some(field) = form.fields.get(idx) else { return };
    let n_letters = field.text.value().chars().count();
    // A hidden text is shown as one mark for each letter.
    let hidden = Field::edited(&"•".repeat(n_letters.min(usize::from(area.width) / 2)));
    let of = LabelledField {
        label: field.label,
        label_width: label_width(form),
        width: area.width,
        is_focused: idx == form.focus,
        has_caret: idx == form.focus,
        ground: frame.theme.bg,
        choice: matches!(field.kind, FieldKind::Choice(_)).then(|| field.text.value()),
        text: if field.kind == FieldKind::Secret { &hidden } else { &field.text },
    };
    of.draw(area, buf, frame.theme);
    frame.hits.add(Rect { height: 1, ..area }, Target::Row { pane: 0, row: idx });
}

fn label_width(form: &Form) -> u16 {
    let widest = form.fields.iter().map(|field| field.label.len()).max();
    u16::try_from(widest.unwrap_or(0)).unwrap_or(u16::MAX)
}

/// Draws the problem of a field after an attempt to submit the form, otherwise its hint.
fn draw_hint(area: Rect, buf: &mut Buffer, frame: Frame<'_>, form: &Form, idx: usize) {
    let Some(field) = form.fields.get(idx) else { return };
    let (text, style) = match form.problem(field).filter(|_| form.is_tried) {
        Some(problem) => (format!("└ {problem}"), frame.theme.down),
        None => (field.hint.to_owned(), frame.theme.muted),
    };
    text_cut(buf, area, (label_width(form) + 2, 0), &text, style);
}

/// Draws the buttons into the last row of `area`.
fn draw_buttons(area: Rect, buf: &mut Buffer, frame: Frame<'_>, form: &Form) {
    let theme = frame.theme;
    let y = area.height.saturating_sub(1);
    let mut x = 0;
    let (submit, other) = match form.layer() {
        Layer::Report if form.has_secret() => (Action::Open, (Action::Back, "Close")),
        Layer::Report => (Action::Open, (Action::Copy, "Copy")),
        // Only an import can be cancelled after it was sent.
        _ if form.is_sent() && !form.is_import() => (Action::Open, (Action::Back, "Close")),
        _ => (Action::Open, (Action::Back, "Cancel")),
    };
    let verbs = [(submit, form.verb, theme.focus), (other.0, other.1, theme.muted)];
    for (action, verb, style) in verbs.into_iter().skip(usize::from(form.is_sent())) {
        let text = format!(" {} {verb} ", frame.key(form.layer(), action));
        let end = paint::text(buf, area, (x, y), &text, theme.tag(style));
        frame.hits.add(strip(area, (x, y), end.saturating_sub(x)), Target::Action(action));
        x = end + 1;
    }
}

#[cfg(test)]
mod tests;
