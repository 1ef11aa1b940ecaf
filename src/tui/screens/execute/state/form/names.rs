//! Names in the form: the aliases of a function, and completion of the typed text.

use wire::functions::FunctionBody;

use super::{Form, FormField, WINDOW_FIRST};
use crate::state::{navigation::cycled, runs::Source};

/// The most names kept of one content beside the head's own.
const NAMES_MAX: usize = 8;

impl Form {
    /// Adds the name that `function_id` has on this machine, beside the head's.
    pub(crate) fn also_named(&mut self, function_id: &str, name: &str) {
        let names = self.other_names.entry(function_id.to_owned()).or_default();
        if names.len() < NAMES_MAX && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }

    /// All names of a function, the head's first.
    pub(crate) fn names_of<'a>(
        &'a self,
        function: &'a FunctionBody,
    ) -> impl Iterator<Item = &'a str> {
        let others = self.other_names.get(&function.function_id).into_iter().flatten();
        let others = others.map(String::as_str).filter(|name| *name != function.name);
        std::iter::once(function.name.as_str()).chain(others)
    }

    /// Puts functions of the same content and method together, under the first name of each.
    pub(crate) fn merge_names(&mut self, functions: Vec<FunctionBody>) -> Vec<FunctionBody> {
        let mut merged: Vec<FunctionBody> = Vec::with_capacity(functions.len());
        for function in functions {
            let is_same = |known: &FunctionBody| {
                (&known.function_id, &known.method) == (&function.function_id, &function.method)
            };
            if merged.iter().any(is_same) {
                self.also_named(&function.function_id, &function.name);
            } else {
                merged.push(function);
            }
        }
        merged
    }

    /// The datasets whose names contain the typed text, and the index of an exact match; all
    /// datasets where there is one. `None` where standard input names no dataset.
    pub(crate) fn dataset_matches(&self) -> (Vec<&String>, Option<usize>) {
        if self.source != Source::Rows {
            return (Vec::new(), None);
        }
        let (typed, _) = self.dataset_and_window();
        let is_meant = self.datasets.iter().any(|name| name == typed);
        let wanted = typed.to_lowercase();
        let holds = |name: &&String| is_meant || name.to_lowercase().contains(&wanted);
        let found: Vec<&String> = self.datasets.iter().filter(holds).collect();
        let idx = found.iter().position(|name| *name == typed);
        (found, idx)
    }

    /// The dataset and the window that standard input names.
    fn dataset_and_window(&self) -> (&str, &str) {
        let text = self.text(FormField::Stdin).trim();
        text.rsplit_once(' ').unwrap_or((text, WINDOW_FIRST))
    }

    /// Selects the dataset `by` places on among those that match.
    pub(crate) fn choose_dataset(&mut self, by: isize) {
        let (found, idx) = self.dataset_matches();
        let Some(name) = found.get(cycled(idx, by, found.len())) else { return };
        let text = format!("{name} {}", self.dataset_and_window().1);
        self.set(FormField::Stdin, &text);
        self.is_open = true;
    }

    /// Completes the name in the focused field where the typed text matches only one.
    pub(crate) fn complete(&mut self) {
        match self.focus {
            FormField::Function if self.meant().is_none() => {
                let is_typed = !self.text(FormField::Function).trim().is_empty();
                let (found, _) = self.matches();
                if let Some(one) = found.first().filter(|_| is_typed && found.len() == 1) {
                    let function = FunctionBody::clone(one);
                    self.added(&function);
                }
            }
            FormField::Stdin => {
                let (found, idx) = self.dataset_matches();
                if idx.is_none() && found.len() == 1 && !self.text(FormField::Stdin).is_empty() {
                    self.choose_dataset(1);
                }
            }
            _ => {}
        }
    }
}
