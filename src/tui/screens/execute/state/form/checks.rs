//! Checks of the form's fields, and completion of names.

use model::function::{FunctionId, Method};
use model::node::Subgroup;
use model::selector::Selector;
use wire::functions::FunctionBody;

use crate::screens::cluster::state::ClusterContext;
use crate::screens::execute::state::form::{
    Check, Form, FormField, N_NODES_MAX, SECONDS_MAX, WINDOW_FIRST, variables,
};
use crate::screens::execute::state::presets;
use crate::state::navigation::cycled;
use crate::state::runs::{Input, Source};
use crate::state::stack;
use crate::widget::format::counted;

impl Form {
    /// Checks the value of a field.
    pub(crate) fn check(&self, field: FormField, known: ClusterContext<'_>) -> Check {
        let text = self.text(field).trim();
        match field {
            FormField::Function => self.check_function(known),
            FormField::FunctionId => match text.parse::<FunctionId>() {
                _ if text.is_empty() => Check::Unfit("a content id (CID) is required".to_owned()),
                Ok(_) => Check::Fit(self.earlier_runs(known)),
                Err(_)
                    if self
                        .functions
                        .iter()
                        .any(|it| it.by_manifest.iter().any(|id| id == text)) =>
                {
                    Check::Fit(self.earlier_runs(known))
                }
                Err(_) => Check::Unfit("not a content id (CID) such as bafkrei…".to_owned()),
            },
            FormField::Method => match text.parse::<Method>() {
                Err(_) => Check::Unfit("expected a file name such as hello.wasm".to_owned()),
                Ok(method) if method.as_str().strip_suffix(".wasm").is_none() => {
                    Check::Doubtful("does not end in .wasm".to_owned())
                }
                Ok(method) => self.check_method(method.as_str()),
            },
            FormField::Nodes => self.check_nodes(known),
            FormField::Subgroup => check_subgroup(text, known),
            FormField::Selector => check_selector(text, known),
            FormField::Arguments => match presets::split_words(text) {
                Err(error) => Check::Unfit(error.to_owned()),
                Ok(_) => Check::Fit("space-separated; quote arguments with spaces".to_owned()),
            },
            FormField::Environment => match variables(text) {
                Err(error) => Check::Unfit(error),
                Ok(_) => Check::Fit("NAME=value, space-separated".to_owned()),
            },
            FormField::Source => Check::Fit("↑↓ typed, a file, rows of a dataset".to_owned()),
            FormField::Stdin => self.check_stdin(),
            FormField::Timeout => check_seconds(text, "how long the head waits for workers"),
            FormField::RunLimit => check_seconds(text, "up to each node's own limit"),
        }
    }

    /// Checks the method. An unlisted method can be valid, since the head does not have to list
    /// all modules of a function.
    fn check_method(&self, method: &str) -> Check {
        let id = self.text(FormField::FunctionId).trim();
        let same = self.functions.iter().filter(|function| function.function_id == id);
        let listed: Vec<&str> = same.map(|function| function.method.as_str()).collect();
        if listed.is_empty() || listed.contains(&method) {
            return Check::Fit("the file inside the function to run".to_owned());
        }
        Check::Doubtful(format!("the head lists {} for this function", listed.join(", ")))
    }

    fn check_stdin(&self) -> Check {
        let text = self.text(FormField::Stdin);
        match Input::read(self.source, text) {
            Err(error) => Check::Unfit(error),
            Ok(Input::Typed) => Check::Fit("\\n is a line break".to_owned()),
            Ok(Input::File(_)) => Check::Fit("read when the run is sent".to_owned()),
            Ok(Input::Rows { dataset, .. })
                if !self.datasets.is_empty() && !self.datasets.contains(&dataset) =>
            {
                match self.dataset_matches().0.len() {
                    0 => Check::Doubtful(format!("no dataset \"{dataset}\" is listed")),
                    n => Check::Doubtful(format!("{n} names contain this: ↓ selects one")),
                }
            }
            Ok(Input::Rows { .. }) => {
                Check::Fit("the latest rows as NDJSON; ↑↓ selects a dataset".to_owned())
            }
        }
    }

    fn check_function(&self, known: ClusterContext<'_>) -> Check {
        let text = self.text(FormField::Function).trim();
        if self.file().is_some() {
            return Check::Fit("a local file: Enter uploads it to the head".to_owned());
        }
        let is_name = !text.is_empty() && text.parse::<FunctionId>().is_err();
        if is_name && self.chosen_function().is_none() && !self.functions.is_empty() {
            return match self.matches().0.len() {
                0 => Check::Unfit("no function has this name; enter an id or a path".to_owned()),
                n => Check::Unfit(format!("{n} names contain this: ↓ selects one")),
            };
        }
        match (self.function(), self.functions.len()) {
            (Some((idx, function)), n) => {
                let place = format!("{} of {n} functions of the head", idx + 1);
                let size = crate::widget::format::bytes(function.bytes);
                Check::Fit(if function.bytes == 0 { place } else { format!("{place} · {size}") })
            }
            (None, 0) if known.stack.phase == stack::Phase::Starting => {
                Check::Fit("the head is starting; its functions are listed then".to_owned())
            }
            (None, 0) => Check::Fit("the head lists no functions; enter an id".to_owned()),
            (None, n) => Check::Fit(format!("not among the {n} functions of the head")),
        }
    }

    fn check_nodes(&self, known: ClusterContext<'_>) -> Check {
        let number = match self.text(FormField::Nodes).trim().parse() {
            Ok(-1) => return Check::Fit("all that respond".to_owned()),
            Ok(number @ 1..=N_NODES_MAX) => number,
            _ => return Check::Unfit("an integer of at least 1, or -1 for all".to_owned()),
        };
        let subgroup = self.text(FormField::Subgroup).trim();
        let selector = self.text(FormField::Selector).trim().parse().ok();
        let n_known = known.nodes.n_workers_in(subgroup, selector.as_ref(), known.stack);
        let mut place = match subgroup {
            "" => "the cluster".to_owned(),
            name => format!("subgroup \"{name}\""),
        };
        if let Some(selector) = selector {
            place = format!("{place} with {selector}");
        }
        if n_known == 0 {
            return Check::Fit(format!("no worker is known in {place} yet"));
        }
        let workers = counted(n_known, "worker");
        if usize::try_from(number).is_ok_and(|number| number > n_known) {
            let note = format!("only {workers} known in {place}: the head may refuse");
            return Check::Doubtful(note);
        }
        Check::Fit(format!("of {workers} known in {place}"))
    }

    fn earlier_runs(&self, known: ClusterContext<'_>) -> String {
        let id = self.text(FormField::FunctionId).trim();
        match known.runs.iter().filter(|run| run.request.function_id == id).count() {
            0 => "not run yet in this session".to_owned(),
            n => counted(n, "earlier run"),
        }
    }

    /// Adds a further name of the function `function_id`.
    pub(crate) fn also_named(&mut self, function_id: &str, name: &str) {
        let names = self.other_names.entry(function_id.to_owned()).or_default();
        if names.len() < NAMES_MAX && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }

    /// Returns all names of a function. The name at the head is first.
    pub(crate) fn names_of<'a>(
        &'a self,
        function: &'a FunctionBody,
    ) -> impl Iterator<Item = &'a str> {
        let others = self.other_names.get(&function.function_id).into_iter().flatten();
        let others = others.map(String::as_str).filter(|name| *name != function.name);
        std::iter::once(function.name.as_str()).chain(others)
    }

    /// Merges functions with equal content id and method. The first name of a function remains its name,
    /// and the other names are recorded as further names.
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

    /// Returns the datasets with names that contain the typed text, and the index of the dataset
    /// with exactly this name. If there is such a dataset, returns all datasets.
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

    /// Returns the name of the dataset and the window in the field for standard input.
    fn dataset_and_window(&self) -> (&str, &str) {
        let text = self.text(FormField::Stdin).trim();
        text.rsplit_once(' ').unwrap_or((text, WINDOW_FIRST))
    }

    /// Selects the dataset `by` places further among those that match.
    pub(crate) fn choose_dataset(&mut self, by: isize) {
        let (found, idx) = self.dataset_matches();
        let Some(name) = found.get(cycled(idx, by, found.len())) else { return };
        let text = format!("{name} {}", self.dataset_and_window().1);
        self.set(FormField::Stdin, &text);
        self.is_open = true;
    }

    /// Completes the text of the focused field if it matches the name of a single function or
    /// dataset.
    pub(crate) fn complete(&mut self) {
        if self.text(self.focus).trim().is_empty() {
            return;
        }
        if self.focus == FormField::Function && self.chosen_function().is_none() {
            if let [one] = self.matches().0.as_slice() {
                let function = FunctionBody::clone(one);
                self.added(&function);
            }
        } else if self.focus == FormField::Stdin {
            let (found, idx) = self.dataset_matches();
            if idx.is_none() && found.len() == 1 {
                self.choose_dataset(1);
            }
        }
    }
}

/// Checks a number of seconds. `note` is the hint. An empty text is valid.
fn check_seconds(text: &str, note: &str) -> Check {
    match text.parse::<i64>() {
        _ if text.is_empty() => Check::Fit("s, empty for the default".to_owned()),
        Ok(1..=SECONDS_MAX) => Check::Fit(format!("s; {note}")),
        _ => Check::Unfit(format!("seconds, 1 to {SECONDS_MAX}")),
    }
}

fn check_subgroup(text: &str, known: ClusterContext<'_>) -> Check {
    let groups = known.nodes.subgroups(known.stack);
    if text.is_empty() && groups.is_empty() {
        return Check::Fit("empty: every node".to_owned());
    }
    if text.is_empty() {
        return Check::Fit(format!("empty: every node; ↓ for known: {}", groups.join(", ")));
    }
    match text.parse::<Subgroup>() {
        Err(_) => Check::Unfit("1 to 128 bytes without spaces".to_owned()),
        Ok(_) if groups.iter().any(|group| group == text) || groups.is_empty() => {
            Check::Fit("only nodes of this group".to_owned())
        }
        Ok(_) => Check::Doubtful(format!("no node known in \"{text}\"")),
    }
}

fn check_selector(text: &str, known: ClusterContext<'_>) -> Check {
    if text.is_empty() {
        let declared = known.nodes.declared(known.stack);
        return Check::Fit(match declared.as_slice() {
            [] => "such as zone=a,gpu!=none; empty: any".to_owned(),
            declared => format!("empty: any; ↓ for known: {}", declared.join(", ")),
        });
    }
    let selector: Selector = match text.parse() {
        Ok(selector) => selector,
        Err(error) => return Check::Unfit(error.to_string()),
    };
    let n_selected = |selector| known.nodes.n_workers_in("", selector, known.stack);
    match (n_selected(Some(&selector)), n_selected(None)) {
        (_, 0) => Check::Fit("only workers that declare this".to_owned()),
        (0, _) => Check::Doubtful("no known worker declares this: the head may refuse".to_owned()),
        (n, n_known) => Check::Fit(format!("{n} of {n_known} known workers")),
    }
}

/// Maximum number of further names of a function.
const NAMES_MAX: usize = 8;
