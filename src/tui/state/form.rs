//! Forms: fields with labels, the rules that they must follow, and the change that a form requests.

pub(crate) mod datasets;
pub(crate) mod keys;
pub(crate) mod node;
pub(crate) mod topics;

use std::fmt;
use std::sync::Arc;

use model::dataset::DatasetId;
use wire::accounts::Secret;

use crate::event::Preparation;
use crate::keymap::Layer;
use crate::state::change::{Change, Session};
use crate::state::field::Field;
use crate::state::navigation::cycled;
use crate::state::resource::Failure;

/// A form in an overlay.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) purpose: Purpose,
    pub(crate) title: String,
    /// Explanation above the fields. Can be empty.
    pub(crate) intro: String,
    /// Name of the button.
    pub(crate) verb: &'static str,
    pub(crate) fields: Vec<FormField>,
    /// Index of the focused field.
    pub(crate) focus: usize,
    /// True after an attempt to submit the form. From then on, problems of fields are shown.
    pub(crate) is_tried: bool,
    pub(crate) step: Step,
    /// Pending or failed check of the form's action. `None` if there was no check, or it succeeded.
    pub(crate) preparation: Option<Preparation>,
}

/// Use of a form that is submitted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Purpose {
    /// Waits for the settings that another form changes.
    Wait,
    /// Adds a rule for alerts.
    Alert,
    /// Saves the form of the Execute screen as a preset.
    Preset,
    /// Writes this text to a file, or the visible table if it is `None`.
    Save(Option<String>),
    /// Exports the charted dataset.
    Export,
    /// Checks and stores the API key of this profile.
    Key(String),
    /// Starts a node on this machine. The address of a head was filled in if `has_address` is true.
    AddNode {
        has_address: bool,
    },
    /// Shows a text, and a secret until the form closes.
    Report(Option<Secret>),
    /// Requests this change, which no field can alter.
    Confirm(Box<Change>),
    CreateDataset,
    EditDataset(Box<datasets::Edited>),
    /// Imports a file. The form suggests the dataset with this id and name.
    Import(Option<(DatasetId, String)>),
    CreateTopic,
    EditTopic(Box<topics::Edited>),
    LogIn,
    /// Creates an API key in the account of this session.
    CreateKey(Session),
}

/// Progress of submitting a form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Typed,
    /// The response is pending, with the progress of the work as text. Can be empty.
    Sent(String),
    /// The last attempt has failed.
    Failed(Failure),
}

/// Returns the problem of a text, or `None` if it is valid.
type Rule = dyn Fn(&str) -> Option<String> + Send + Sync;

/// A field of a form.
#[derive(Clone)]
pub(crate) struct FormField {
    pub(crate) label: &'static str,
    /// Text below the field while it has no problem.
    pub(crate) hint: &'static str,
    pub(crate) kind: FieldKind,
    pub(crate) text: Field,
    /// Returns the problem of a text that is not empty, or `None` if it is valid.
    check: Arc<Rule>,
    is_required: bool,
}

/// Kind of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Text,
    /// A text of which only the length is displayed.
    Secret,
    /// One of several values.
    Choice(&'static [&'static str]),
}

impl FormField {
    /// Returns an optional field that contains `text`.
    pub(crate) fn new(label: &'static str, hint: &'static str, text: &str) -> Self {
        let text = Field::edited(text);
        Self {
            label,
            hint,
            kind: FieldKind::Text,
            text,
            check: Arc::new(|_| None),
            is_required: false,
        }
    }

    /// Returns a field that contains `chosen`, which is one of `values`.
    pub(crate) fn choice(
        label: &'static str,
        hint: &'static str,
        values: &'static [&'static str],
        chosen: &str,
    ) -> Self {
        Self { kind: FieldKind::Choice(values), ..Self::new(label, hint, chosen) }
    }

    /// Returns a field in which the user types `text` to confirm a deletion.
    pub(crate) fn exactly(label: &'static str, text: &str) -> Self {
        let wanted = text.to_owned();
        let is_it = move |typed: &str| (typed != wanted).then(|| format!("not {wanted}"));
        Self::new(label, "type it to confirm", "").checked(is_it).required()
    }

    /// Returns the field, which must not be empty.
    pub(crate) fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Hides the text of the field: only its length is displayed.
    pub(crate) fn secret(self) -> Self {
        Self { kind: FieldKind::Secret, ..self }
    }

    /// Adds a rule that the text of the field must follow.
    pub(crate) fn checked(
        self,
        check: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let before = self.check;
        Self { check: Arc::new(move |text| before(text).or_else(|| check(text))), ..self }
    }

    /// Adds the rule `is_valid` for the text of the field. `problem` is shown if it is not.
    pub(crate) fn valid_if(
        self,
        is_valid: impl Fn(&str) -> bool + Send + Sync + 'static,
        problem: &'static str,
    ) -> Self {
        self.checked(move |text| (!is_valid(text)).then(|| problem.to_owned()))
    }

    /// Adds the rule `is_valid` for each part between commas. `problem` follows an invalid part.
    pub(crate) fn each_if(
        self,
        is_valid: impl Fn(&str) -> bool + Send + Sync + 'static,
        problem: &'static str,
    ) -> Self {
        self.checked(move |text| {
            let invalid = parts(text).find(|part| !is_valid(part))?;
            Some(format!("`{invalid}` {problem}"))
        })
    }

    /// Returns the field, which only accepts names from the list `names`, separated by commas. `=` and
    /// a text can follow a name.
    pub(crate) fn among(self, names: Vec<String>) -> Self {
        self.checked(move |text| {
            let mut wanted = parts(text).map(|part| part.split('=').next().unwrap_or(part).trim());
            let unknown = wanted.find(|name| !names.iter().any(|known| known == name))?;
            Some(format!("no {unknown} exists"))
        })
    }

    /// Returns the problem of the field, or `None` if the field is valid.
    pub(crate) fn problem(&self) -> Option<String> {
        let text = self.text.value().trim();
        if text.is_empty() {
            return self.is_required.then(|| format!("the {} is missing", self.label));
        }
        (self.check)(text)
    }
}

impl fmt::Debug for FormField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text can be a secret.
        f.debug_struct("FormField").field("label", &self.label).finish_non_exhaustive()
    }
}

impl Form {
    /// Returns a form with these fields. The first field has focus.
    pub(crate) fn new(
        purpose: Purpose,
        title: impl Into<String>,
        verb: &'static str,
        fields: Vec<FormField>,
    ) -> Self {
        Self {
            purpose,
            title: title.into(),
            intro: String::new(),
            verb,
            fields,
            focus: 0,
            is_tried: false,
            step: Step::Typed,
            preparation: None,
        }
    }

    /// Returns a form without fields that waits for settings.
    pub(crate) fn waiting(title: &str) -> Self {
        let form = Self::new(Purpose::Wait, title, "Retry", Vec::new());
        Self { step: Step::Sent(String::new()), ..form }
    }

    /// Returns the form with an explanation above its fields.
    pub(crate) fn explained(self, intro: impl Into<String>) -> Self {
        Self { intro: intro.into(), ..self }
    }

    /// Returns a form that asks for confirmation of `change`, by a press of a key or with `fields`.
    pub(crate) fn confirming(
        change: Change,
        intro: String,
        verb: &'static str,
        fields: Vec<FormField>,
    ) -> Self {
        let title = format!("{verb}?");
        Self::new(Purpose::Confirm(Box::new(change)), title, verb, fields).explained(intro)
    }

    /// Returns a form that only shows a text and a secret.
    pub(crate) fn report(title: &str, text: String, secret: Option<Secret>) -> Self {
        let verb = if secret.is_some() { "Copy" } else { "Close" };
        Self::new(Purpose::Report(secret), title, verb, Vec::new()).explained(text)
    }

    /// Returns the text of a report that the user copies: its secret if it has one.
    pub(crate) fn report_text(&self) -> Option<String> {
        match &self.purpose {
            Purpose::Report(secret) => {
                Some(secret.as_ref().map_or(&self.intro, |secret| &secret.0).clone())
            }
            _ => None,
        }
    }

    /// Returns the trimmed text of the field `label`. Empty if the form has no such field.
    pub(crate) fn value(&self, label: &str) -> &str {
        let field = self.fields.iter().find(|field| field.label == label);
        field.map_or("", |field| field.text.value().trim())
    }

    /// Returns the names in the field `label`, which are separated by commas.
    pub(crate) fn values(&self, label: &str) -> Vec<String> {
        parts(self.value(label)).map(str::to_owned).collect()
    }

    /// Returns the focused text field.
    pub(crate) fn field(&mut self) -> Option<&mut Field> {
        let is_sent = self.is_sent();
        let field = self.fields.get_mut(self.focus).filter(|_| !is_sent)?;
        (!matches!(field.kind, FieldKind::Choice(_))).then_some(&mut field.text)
    }

    /// Moves the focus by `by` fields. The last field is followed by the first.
    pub(crate) fn move_focus(&mut self, by: isize) {
        self.focus = cycled(Some(self.focus), by, self.fields.len());
    }

    /// Moves a choice by `by` values. If a text has focus, moves the focus by `by` fields.
    pub(crate) fn choose(&mut self, by: isize) {
        let is_sent = self.is_sent();
        match self.fields.get_mut(self.focus) {
            Some(FormField { kind: FieldKind::Choice(values), text, .. }) if !is_sent => {
                let idx = values.iter().position(|value| *value == text.value());
                if let Some(value) = values.get(cycled(idx, by, values.len())) {
                    text.set(value);
                }
                if matches!(self.purpose, Purpose::AddNode { .. }) {
                    node::rebuild(self);
                }
            }
            _ => self.move_focus(by),
        }
    }

    /// Returns true while the response is pending.
    pub(crate) const fn is_sent(&self) -> bool {
        matches!(self.step, Step::Sent(_))
    }

    /// Returns the problem of `field`, or of its combination with other fields. `None` if it is valid.
    pub(crate) fn problem(&self, field: &FormField) -> Option<String> {
        field.problem().or_else(|| match &self.purpose {
            Purpose::EditDataset(before) => datasets::edit_problem(self, field.label, before),
            Purpose::CreateTopic | Purpose::EditTopic(_) => topics::problem(self, field.label),
            _ => None,
        })
    }

    /// Returns true if the form imports a file.
    pub(crate) const fn is_import(&self) -> bool {
        matches!(self.purpose, Purpose::Import(_))
    }

    /// Returns true if the form shows a secret, which cannot be shown again.
    pub(crate) const fn has_secret(&self) -> bool {
        matches!(self.purpose, Purpose::Report(Some(_)))
    }

    /// Returns true if all fields are valid. Otherwise, moves the focus to the first invalid field and
    /// shows its problem.
    pub(crate) fn is_valid(&mut self) -> bool {
        self.is_tried = true;
        let invalid = self.fields.iter().position(|field| self.problem(field).is_some());
        self.focus = invalid.unwrap_or(self.focus);
        invalid.is_none()
    }

    /// Returns the layer of key bindings while the form is open.
    pub(crate) const fn layer(&self) -> Layer {
        match self.purpose {
            Purpose::Report(_) => Layer::Report,
            _ => Layer::Prompt,
        }
    }

    /// Returns the change that the form requests. `None` for forms that no service handles.
    pub(crate) fn change(&self) -> Option<Change> {
        match &self.purpose {
            Purpose::Confirm(change) => Some(Change::clone(change)),
            Purpose::CreateDataset => Some(datasets::created(self)),
            Purpose::EditDataset(before) => Some(datasets::edited(self, before)),
            Purpose::Import(dataset) => Some(datasets::imported(self, dataset.as_ref())),
            Purpose::CreateTopic => Some(topics::created(self)),
            Purpose::EditTopic(before) => Some(topics::edited(self, before)),
            Purpose::LogIn => Some(keys::log_in(self)),
            Purpose::CreateKey(session) => {
                let name = self.value("name").to_owned();
                Some(Change::CreateKey { session: session.clone(), name })
            }
            _ => None,
        }
    }
}

/// Returns the parts of a text that are separated by commas.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}
