//! Forms that create, edit and delete a topic.

use std::collections::BTreeMap;

use model::topic::TopicId;
use wire::inference::cases::Decimal;
use wire::inference::network::{PredictorSettings, TopicSettings};

use super::{Form, FormField, Purpose};
use crate::state::change::Change;
use crate::state::runs::span;

/// Loss functions. The first is the default.
const LOSSES: &[&str] =
    &["mse", "mae", "huber", "logcosh", "ce", "bce", "poisson", "ztae", "zptae", "czar"];

/// Loss functions of a new topic, which does not allow the negative losses of `poisson`.
const LOSSES_NEW: &[&str] =
    &["mse", "mae", "huber", "logcosh", "ce", "bce", "ztae", "zptae", "czar"];

/// Quantities that a topic can predict. The first is the default.
const TARGETS: &[&str] = &["value", "log_return", "volatility", DIRECTION];

/// Quantities that a topic without labels can predict.
const NUMBERS: &[&str] = &["value", "log_return", "volatility"];

/// Target of topics with the labels `up`, `down` and `flat`.
const DIRECTION: &str = "direction";

/// Generations of the arithmetic. The first is the default.
const ALGORITHMS: &[&str] = &["mad-v0.17", "stdev-oct2024"];

/// States of a topic.
const STATES: &[&str] = &["opens epochs", PAUSED];

/// State of a topic that opens no epochs.
const PAUSED: &str = "is paused";

/// A topic before it is edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edited {
    pub(crate) topic: TopicId,
    pub(crate) settings: TopicSettings,
    pub(crate) is_paused: bool,
}

/// Returns the form for a new topic on the dataset with this name and its column.
pub(crate) fn create_form(dataset: &str, column: &str) -> Form {
    let (dataset, column) = (dataset.to_owned(), column.to_owned());
    let settings = TopicSettings { dataset, column, ..TopicSettings::default() };
    Form::new(Purpose::CreateTopic, "New topic", "Create", fields(&settings, LOSSES_NEW, TARGETS))
}

/// Returns the form that edits a topic.
pub(crate) fn edit_form(before: Edited) -> Form {
    // The labels of a topic cannot change.
    let is_direction = before.settings.direction_threshold.is_some();
    let targets: &[_] = if is_direction { &[DIRECTION] } else { NUMBERS };
    let mut fields = fields(&before.settings, LOSSES, targets);
    let state = STATES[usize::from(before.is_paused)];
    fields.push(FormField::choice("state", "↑↓ a paused topic opens no epochs", STATES, state));
    let title = format!("Topic {}", before.topic);
    Form::new(Purpose::EditTopic(Box::new(before)), title, "Save", fields)
}

/// Returns the form that deletes a topic.
pub(crate) fn delete_form(topic: TopicId, name: &str) -> Form {
    let change = Change::DeleteTopic { topic, name: name.to_owned() };
    let intro = format!("Deletes topic {topic}, {name}, with all its epochs, for good.");
    let number = FormField::exactly("number", &topic.to_string());
    Form::confirming(change, intro, "Delete", vec![number])
}

fn fields(
    settings: &TopicSettings,
    losses: &'static [&'static str],
    targets: &'static [&'static str],
) -> Vec<FormField> {
    let TopicSettings { predictor, direction_threshold, .. } = settings;
    let (function, method) = predictor.as_ref().map_or(("", ""), |it| (&it.function, &it.method));
    let threshold = direction_threshold.as_ref().map_or("", |it| &it.0);
    let known = |text: &Option<String>, usual: &str| text.clone().unwrap_or(usual.to_owned());
    let target = match direction_threshold {
        Some(_) => DIRECTION,
        None => &known(&settings.target, TARGETS[0]),
    };
    let horizon = match settings.horizon_seconds {
        0 => String::new(),
        seconds => format!("{seconds}s"),
    };
    let length = settings.epoch_length.map(|n| n.to_string()).unwrap_or_default();
    let (loss, algorithm) =
        (known(&settings.loss_method, LOSSES[0]), known(&settings.algorithm, ALGORITHMS[0]));
    vec![
        FormField::new("name", "a description of the prediction", &settings.metadata).required(),
        FormField::new("dataset", "its inputs and ground truth", &settings.dataset).required(),
        FormField::new("column", "the predicted column", &settings.column).required(),
        FormField::new("horizon", "time to the predicted row: 12s, 5m, 1d", &horizon)
            .required()
            .valid_if(|text| seconds(text).is_some(), "expected whole seconds: 12s, 5m, 1d …"),
        FormField::new("epoch", "blocks per epoch; empty for 12", &length).valid_if(
            |text| text.parse::<u64>().is_ok_and(|n| n > 0),
            "expected a number of blocks",
        ),
        FormField::choice("predicts", "↑↓ direction: up, down or flat", targets, target),
        FormField::new("flat up to", "relative change that counts as flat: 0.001", threshold)
            .valid_if(|text| text.parse::<f64>().is_ok(), "expected a number"),
        FormField::choice("loss", "↑↓ error of a value", losses, &loss),
        FormField::choice("arithmetic", "↑↓ generation of the chain", ALGORITHMS, &algorithm),
        FormField::new("function", "name or id; empty: only workers submit", function),
        FormField::new("method", "its file, such as predict.wasm", method),
    ]
}

/// Parses a duration of whole seconds, such as `12s` or `90m`, to seconds.
fn seconds(text: &str) -> Option<u64> {
    let span = span(text).filter(|span| span.subsec_nanos() == 0 && !span.is_zero());
    span.map(|span| span.as_secs())
}

/// Returns `before` with the settings in `form`.
fn settings(form: &Form, before: TopicSettings) -> TopicSettings {
    let text = |label| form.value(label).to_owned();
    let target = Some(text("predicts"));
    let is_direction = target.as_deref() == Some(DIRECTION);
    let was_direction = before.direction_threshold.is_some();
    let threshold = Some(text("flat up to")).filter(|text| !text.is_empty());
    let before = without_defaults(form, before);
    let labels = is_direction && !was_direction;
    TopicSettings {
        metadata: text("name"),
        dataset_id: before.dataset_id.filter(|_| before.dataset == form.value("dataset")),
        dataset: text("dataset"),
        column: text("column"),
        horizon_seconds: seconds(form.value("horizon")).unwrap_or_default(),
        epoch_length: form.value("epoch").parse().ok(),
        direction_threshold: threshold.map(Decimal).filter(|_| is_direction),
        target: target.filter(|it| !is_direction && (before.target.is_some() || it != TARGETS[0])),
        topic_type: if labels { Some("classification".to_owned()) } else { before.topic_type },
        label_whitelist: if labels {
            ["up", "down", "flat"].map(str::to_owned).to_vec()
        } else {
            before.label_whitelist
        },
        require_unity: labels || before.require_unity,
        loss_method: Some(text("loss")),
        algorithm: Some(text("arithmetic")),
        predictor: predictor(form, before.predictor),
        ..before
    }
}

/// Returns `before` without the settings that follow from the length of the epoch or belong to the loss,
/// if the form changes these.
fn without_defaults(form: &Form, before: TopicSettings) -> TopicSettings {
    let mut settings = before;
    let length = form.value("epoch").parse::<u64>().ok();
    if let Some(before) = settings.epoch_length.filter(|before| length != Some(*before)) {
        settings.ground_truth_lag.take_if(|lag| *lag == before);
        settings.worker_submission_window.take_if(|window| *window == (before / 2).max(1));
    }
    if settings.loss_method.as_deref() != Some(form.value("loss")) {
        settings.loss_parameters = None;
    }
    settings
}

/// Returns the predictor in `form` with the other settings of `before`.
fn predictor(form: &Form, before: Option<PredictorSettings>) -> Option<PredictorSettings> {
    let (function, method) = (form.value("function").to_owned(), form.value("method").to_owned());
    if function.is_empty() {
        return None;
    }
    Some(match before {
        Some(before) => PredictorSettings { function, method, ..before },
        None => PredictorSettings {
            function,
            method,
            subgroup: None,
            n_nodes: None,
            n_rows: None,
            env: BTreeMap::new(),
            models: Vec::new(),
        },
    })
}

/// Returns the problem of the field `label` together with the other fields.
pub(super) fn problem(form: &Form, label: &str) -> Option<String> {
    let is_missing = label == "flat up to"
        && form.value("predicts") == DIRECTION
        && form.value(label).is_empty();
    is_missing.then(|| "a direction needs this change".to_owned())
}

/// Returns the request for a new topic.
pub(super) fn created(form: &Form) -> Change {
    Change::CreateTopic(Box::new(settings(form, TopicSettings::default())))
}

/// Returns the changes of a topic that was `before`.
pub(super) fn edited(form: &Form, before: &Edited) -> Change {
    let is_paused = form.value("state") == PAUSED;
    let after = settings(form, before.settings.clone());
    let is_changed = after != before.settings;
    Change::EditTopic {
        topic: before.topic,
        settings: is_changed.then(|| Box::new([before.settings.clone(), after])),
        active: (is_paused != before.is_paused).then_some(!is_paused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn horizon_is_a_duration_of_whole_seconds() {
        for (text, want) in [
            ("12s", Some(12)),
            ("90m", Some(5_400)),
            ("1d", Some(86_400)),
            ("0s", None),
            ("1500ms", None),
            ("soon", None),
        ] {
            assert_eq!(seconds(text), want, "{text}");
        }
    }
}
