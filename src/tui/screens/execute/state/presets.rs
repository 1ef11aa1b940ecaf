//! Forms kept under a name, in a file of the user's.
//!
//! No secret is kept: a variable whose name says that it is one is kept without its value.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use wire::functions::ExecuteRequest;

use crate::state::{
    field::Field,
    runs::{Input, Source},
};

/// The most presets kept; the user finds nothing among more.
const PRESETS_MAX: usize = 200;

/// The longest name of one, in characters.
const NAME_CHARS_MAX: usize = 60;

/// Parts of the names of variables that hold secrets.
const SECRETS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// A form that is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preset {
    /// What it asks.
    pub(crate) request: ExecuteRequest,
    /// The source of its standard input.
    pub(crate) input: Input,
}

/// The saved presets.
#[derive(Debug, Default)]
pub(crate) struct Presets {
    pub(crate) list: BTreeMap<String, Preset>,
    /// The name of the selected one; the first if that is gone.
    pub(crate) selected: Option<String>,
    /// The name under which the form is about to be kept.
    pub(crate) name: Field,
}

impl Presets {
    /// The place of the selected one.
    pub(crate) fn selected_idx(&self) -> usize {
        let selected = self.selected.as_ref();
        self.list.keys().position(|name| Some(name) == selected).unwrap_or(0)
    }

    /// The selected one.
    pub(crate) fn selected(&self) -> Option<(&String, &Preset)> {
        self.list.iter().nth(self.selected_idx())
    }

    /// Selects number `idx`.
    pub(crate) fn select(&mut self, idx: usize) {
        self.selected = self.list.keys().nth(idx).cloned();
    }

    /// Keeps `preset` under the name that was typed; returns that name and the variables whose values
    /// were left out. None if there is no name, or no room.
    pub(crate) fn keep(&mut self, mut preset: Preset) -> Option<(String, Vec<String>)> {
        let name: String = self.name.value().trim().chars().take(NAME_CHARS_MAX).collect();
        let is_room = self.list.len() < PRESETS_MAX || self.list.contains_key(&name);
        if name.is_empty() || !is_room {
            return None;
        }
        let left_out = forget_secrets(&mut preset.request);
        self.list.insert(name.clone(), preset);
        self.selected = Some(name.clone());
        Some((name, left_out))
    }

    /// Removes the selected one, and returns its name.
    pub(crate) fn remove(&mut self) -> Option<String> {
        let (idx, name) = (self.selected_idx(), self.selected()?.0.clone());
        self.list.remove(&name);
        self.select(idx.min(self.list.len().saturating_sub(1)));
        Some(name)
    }
}

/// Empties the variables of `request` whose names say that they hold secrets; returns their names.
fn forget_secrets(request: &mut ExecuteRequest) -> Vec<String> {
    let variables = request.config.env_vars.as_deref_mut().unwrap_or_default();
    let is_secret = |name: &str| {
        let name = name.to_uppercase();
        SECRETS.iter().any(|part| name.contains(part))
    };
    let secrets = variables.iter_mut().filter(|it| is_secret(&it.name) && !it.value.is_empty());
    secrets
        .map(|variable| {
            variable.value.clear();
            variable.name.clone()
        })
        .collect()
}

/// The text of the file of presets.
pub(crate) fn write(list: &BTreeMap<String, Preset>) -> String {
    let one = |preset: &Preset| {
        let mut value = json!({ "request": preset.request });
        if let (Some((source, text)), Value::Object(members)) = (preset.input.text(), &mut value) {
            let kind = if source == Source::File { "file" } else { "rows" };
            members.insert("stdin".to_owned(), json!({ kind: text }));
        }
        value
    };
    let all: Map<String, Value> =
        list.iter().map(|(name, preset)| (name.clone(), one(preset))).collect();
    serde_json::to_string_pretty(&Value::Object(all)).unwrap_or_default() + "\n"
}

/// Reads the text of a file of presets.
///
/// # Errors
/// What is wrong with it, for people.
pub(crate) fn read(text: &str) -> Result<BTreeMap<String, Preset>, String> {
    let all: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let one = |(name, mut value): (String, Value)| {
        let request = serde_json::from_value(value["request"].take())
            .map_err(|error| format!("preset \"{name}\": {error}"))?;
        let text = |kind: &str| value.get("stdin")?.get(kind)?.as_str();
        let input = match (text("file"), text("rows")) {
            (Some(path), _) => Input::read(Source::File, path)?,
            (None, Some(rows)) => Input::read(Source::Rows, rows)?,
            (None, None) => Input::Typed,
        };
        Ok((name, Preset { request, input }))
    };
    all.into_iter().take(PRESETS_MAX).map(one).collect()
}

#[cfg(test)]
mod tests {
    use wire::functions::{EnvVar, ExecuteConfig};

    use super::*;

    fn preset(input: Input) -> Preset {
        let variable = |name: &str| EnvVar { name: name.to_owned(), value: "x".to_owned() };
        let env_vars = Some(vec![variable("COLOR"), variable("my_api_key")]);
        let config = ExecuteConfig { number_of_nodes: 2, env_vars, ..ExecuteConfig::default() };
        Preset { request: ExecuteRequest { config, ..ExecuteRequest::default() }, input }
    }

    #[test]
    fn presets_round_trip_without_secrets() {
        let mut presets = Presets::default();
        for (name, input) in [
            ("typed", Input::Typed),
            ("file", Input::File("a.csv".to_owned())),
            ("rows", Input::read(Source::Rows, "btc 24h").unwrap()),
        ] {
            presets.name.set(name);
            let kept = presets.keep(preset(input)).unwrap();
            assert_eq!(kept, (name.to_owned(), vec!["my_api_key".to_owned()]));
        }
        let text = write(&presets.list);
        assert_eq!(read(&text).as_ref(), Ok(&presets.list), "{text}");
        let variables = presets.list["file"].request.config.environment();
        assert_eq!((variables["COLOR"].as_str(), variables["my_api_key"].as_str()), ("x", ""));
    }

    #[test]
    fn a_name_is_needed_and_removing_selects_the_next() {
        let mut presets = Presets::default();
        assert_eq!(presets.keep(preset(Input::Typed)), None);
        for name in ["a", "b", "c"] {
            presets.name.set(name);
            presets.keep(preset(Input::Typed)).unwrap();
        }
        presets.select(1);
        assert_eq!(presets.remove().as_deref(), Some("b"));
        assert_eq!(presets.selected().unwrap().0, "c");
        assert!(read("[]").is_err() && read(r#"{"a": {}}"#).is_err());
    }
}
