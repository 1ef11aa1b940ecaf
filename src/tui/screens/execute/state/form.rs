//! The state of the form: its fields, their errors, and the request that it describes.

mod checks;

use std::collections::BTreeMap;

use model::function::FunctionId;
use strum::{IntoStaticStr, VariantArray};
use wire::functions::{
    EnvVar, ExecuteConfig, ExecuteRequest, FunctionBody, Parameter, RuntimeConfig,
};

use crate::screens::cluster::state::ClusterContext;
use crate::screens::execute::state::presets;
use crate::state::field::Field;
use crate::state::navigation::{Steps as _, cycled};
use crate::state::runs::{Input, Source};

/// Maximum number of nodes. A larger number is probably a typo.
const N_NODES_MAX: i64 = 10_000;

/// Maximum timeout in seconds, which is the maximum run limit of a node.
const SECONDS_MAX: i64 = 3_600;

/// Maximum number of datasets that are offered as input.
const DATASETS_MAX: usize = 250;

/// Default length of the window of a dataset.
const WINDOW_FIRST: &str = "24h";

/// Field of the form. The serialized names are the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub(crate) enum FormField {
    /// Name of a function, a content id, or the path of a local module. A known function fills in
    /// the next two fields.
    Function,
    /// Content id of the function.
    #[strum(serialize = "id")]
    FunctionId,
    /// Method: file inside the function that is executed.
    Method,
    /// Number of nodes that execute the function.
    Nodes,
    /// Group of nodes from which the executing nodes are chosen.
    Subgroup,
    /// Attributes that a node must have to be chosen.
    Selector,
    Arguments,
    Environment,
    /// Kind of source of standard input.
    #[strum(serialize = "stdin")]
    Source,
    /// Content of standard input: a text, the path of a file, or a dataset and a window.
    #[strum(serialize = "")]
    Stdin,
    /// Maximum wait for nodes in seconds.
    Timeout,
    /// Maximum run time of the function in seconds.
    #[strum(serialize = "run limit")]
    RunLimit,
}

/// Result of checking a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Check {
    /// Valid. The text is a hint.
    Fit(String),
    /// Valid, but the head can refuse the value. The text is the reason.
    Doubtful(String),
    /// Invalid. The text is the error.
    Unfit(String),
}

/// State of a field.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) text: Field,
    /// True if the field has lost the focus before. The error of the field is shown from then on.
    pub(crate) is_left: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Form {
    /// Functions of the head. A function that is listed under several names occurs once.
    pub(crate) functions: Vec<FunctionBody>,
    /// Further names of functions, by content id.
    other_names: BTreeMap<String, Vec<String>>,
    /// Names of datasets that are offered as input.
    pub(crate) datasets: Vec<String>,
    /// Kind of source of standard input.
    pub(crate) source: Source,
    /// True if the list of known values is open below the focused field.
    pub(crate) is_open: bool,
    places: [Place; FormField::VARIANTS.len()],
    /// The focused field.
    pub(crate) focus: FormField,
}

impl Default for Form {
    fn default() -> Self {
        let mut form = Self {
            functions: Vec::new(),
            other_names: BTreeMap::new(),
            datasets: Vec::new(),
            source: Source::Typed,
            is_open: false,
            places: Default::default(),
            focus: FormField::Function,
        };
        // The local stack has three workers.
        form.set(FormField::Nodes, "3");
        form
    }
}

impl Check {
    /// Returns true if the value of the field can be sent.
    pub(crate) const fn is_fit(&self) -> bool {
        !matches!(self, Self::Unfit(_))
    }
}

impl Form {
    /// Returns the state of a field.
    pub(crate) fn place(&self, field: FormField) -> &Place {
        &self.places[field as usize]
    }

    /// Returns the text of a field.
    pub(crate) fn text(&self, field: FormField) -> &str {
        self.place(field).text.value()
    }

    /// Returns the text field that has focus, or `None` if the focused field is a choice.
    pub(crate) fn field(&mut self) -> Option<&mut Field> {
        let is_text = self.focus != FormField::Source;
        is_text.then_some(&mut self.places[self.focus as usize].text)
    }

    /// Replaces the name of the function by a pasted content id or path. Returns false if `text`
    /// is neither.
    pub(crate) fn paste_command(&mut self, text: &str) -> bool {
        let text = text.trim();
        let is_whole = text.parse::<FunctionId>().is_ok() || is_path(text);
        if self.focus == FormField::Function && is_whole {
            self.set(FormField::Function, text);
            return true;
        }
        false
    }

    /// Handles a change of the focused field.
    pub(crate) fn edited(&mut self) {
        match self.focus {
            FormField::Function => {
                self.is_open = true;
                let text = self.text(FormField::Function).trim().to_owned();
                let mut all = self.functions.iter();
                let named = all.clone().find(|it| self.names_of(it).any(|name| name == text));
                if let Some(function) = named.or_else(|| all.find(|it| it.function_id == text)) {
                    let FunctionBody { function_id, method, .. } = function.clone();
                    self.set(FormField::FunctionId, &function_id);
                    self.set(FormField::Method, &method);
                } else if text.parse::<FunctionId>().is_ok() {
                    self.set(FormField::FunctionId, &text);
                }
            }
            FormField::FunctionId | FormField::Method => self.set_name(),
            FormField::Stdin => self.is_open = self.source == Source::Rows,
            _ => {}
        }
    }

    /// Fills in the name of the function that the form's id and method identify. Clears the name
    /// if it is unknown.
    fn set_name(&mut self) {
        let name = self.function().map(|(_, function)| function.name.clone());
        self.set(FormField::Function, &name.unwrap_or_default());
    }

    /// Returns the path of a local module, if the form names one that has to be uploaded.
    pub(crate) fn file(&self) -> Option<&str> {
        let text = self.text(FormField::Function).trim();
        let is_known = self.functions.iter().any(|it| self.names_of(it).any(|name| name == text));
        (is_path(text) && !is_known).then_some(text)
    }

    /// Selects a function that was uploaded to the head.
    pub(crate) fn added(&mut self, function: &FunctionBody) {
        if !self.functions.contains(function) {
            let mut functions = std::mem::take(&mut self.functions);
            functions.push(function.clone());
            self.functions = self.merge_names(functions);
            self.functions.sort();
        }
        self.set_function(function);
    }

    /// Returns the known function that the form describes, or `None` while the name is a search
    /// for another one.
    pub(crate) fn chosen_function(&self) -> Option<&FunctionBody> {
        let text = self.text(FormField::Function).trim();
        let (_, function) = self.function()?;
        let is_named = self.names_of(function).any(|name| name == text);
        let is_it = text.is_empty() || is_named || function.function_id == text;
        is_it.then_some(function)
    }

    /// Returns the known functions with names that contain the typed text, and the index of the
    /// selected function. If a function is selected, returns all functions.
    pub(crate) fn matches(&self) -> (Vec<&FunctionBody>, Option<usize>) {
        let text = self.text(FormField::Function).trim().to_lowercase();
        let chosen = self.chosen_function();
        let holds = |function: &&FunctionBody| {
            chosen.is_some()
                || self.names_of(function).any(|name| name.to_lowercase().contains(&text))
        };
        let found: Vec<&FunctionBody> = self.functions.iter().filter(holds).collect();
        let idx = chosen.and_then(|chosen| found.iter().position(|function| *function == chosen));
        (found, idx)
    }

    /// Moves the focus by `by` fields. The last field is followed by the first. Moving forward
    /// completes a typed name.
    pub(crate) fn move_focus(&mut self, by: isize) {
        if by > 0 {
            self.complete();
        }
        self.focus_on(self.focus.cycled(by));
    }

    /// Moves the focus to a field.
    pub(crate) fn focus_on(&mut self, field: FormField) {
        self.places[self.focus as usize].is_left = true;
        self.focus = field;
        self.is_open = false;
    }

    /// Sets the functions of the head. If nothing was typed yet, fills in one of them.
    pub(crate) fn know(&mut self, functions: Vec<FunctionBody>) {
        self.functions = self.merge_names(functions);
        let has_text = |field| !self.text(field).is_empty();
        if !has_text(FormField::Function) && !has_text(FormField::FunctionId) {
            let hello = self.functions.iter().find(|function| function.name == "hello");
            if let Some(function) = hello.or(self.functions.first()).cloned() {
                self.set_function(&function);
            }
        }
    }

    /// Returns the known function with the id and the method of the form, and its index.
    pub(crate) fn function(&self) -> Option<(usize, &FunctionBody)> {
        let text = |field| self.text(field).trim();
        self.find(text(FormField::FunctionId), text(FormField::Method))
    }

    /// Returns the known function with this id and this method, and its index.
    pub(crate) fn find(&self, id: &str, method: &str) -> Option<(usize, &FunctionBody)> {
        let is_it = |it: &FunctionBody| (&*it.function_id, &*it.method) == (id, method);
        self.functions.iter().enumerate().find(|(_, function)| is_it(function))
    }

    /// Returns the name of the function that `request` executes, if it is known.
    pub(crate) fn name_of(&self, request: &ExecuteRequest) -> Option<&str> {
        let (_, function) = self.find(&request.function_id, &request.method)?;
        Some(function.name.as_str())
    }

    /// Sets the focused field to the known value `by` places further. If the field has no known
    /// values, moves the focus by `by` fields.
    pub(crate) fn choose(&mut self, by: isize, known: ClusterContext<'_>) {
        let field = self.focus;
        match field {
            FormField::Function if !self.matches().0.is_empty() => {
                let (found, idx) = self.matches();
                let function = found[cycled(idx, by, found.len())].clone();
                self.added(&function);
                self.is_open = true;
            }
            FormField::Source => {
                self.source = self.source.cycled(by);
                let first = self.datasets.first().filter(|_| self.source == Source::Rows);
                let text = first.map(|dataset| format!("{dataset} {WINDOW_FIRST}"));
                self.set(FormField::Stdin, &text.unwrap_or_default());
            }
            FormField::Stdin if !self.dataset_matches().0.is_empty() => self.choose_dataset(by),
            FormField::Timeout | FormField::RunLimit | FormField::Nodes => {
                let (least, most) =
                    if field == FormField::Nodes { (1, N_NODES_MAX) } else { (0, SECONDS_MAX) };
                let number = self.text(field).trim().parse().unwrap_or(0_i64);
                let by = i64::try_from(by).unwrap_or(0);
                let number = number.saturating_add(by).clamp(least, most);
                self.set(field, &if number > 0 { number.to_string() } else { String::new() });
            }
            FormField::Subgroup | FormField::Selector => {
                let mut values = vec![String::new()];
                values.extend(match field {
                    FormField::Subgroup => known.nodes.subgroups(known.stack),
                    _ => known.nodes.declared(known.stack),
                });
                let idx = values.iter().position(|value| value == self.text(field).trim());
                self.set(field, &values[cycled(idx, by, values.len())]);
            }
            _ => self.move_focus(by.signum()),
        }
    }

    /// Sets the names of the datasets.
    pub(crate) fn set_datasets(&mut self, names: impl Iterator<Item = String>) {
        self.datasets = names.take(DATASETS_MAX).collect();
    }

    /// Fills in the form from an earlier request and its input.
    pub(crate) fn fill(&mut self, request: &ExecuteRequest, input: &Input) {
        self.set(FormField::FunctionId, &request.function_id);
        self.set(FormField::Method, &request.method);
        self.set(FormField::Nodes, &request.config.number_of_nodes.max(1).to_string());
        self.set(FormField::Subgroup, request.group().unwrap_or_default());
        self.set(FormField::Selector, request.config.selector.as_deref().unwrap_or_default());
        let arguments = request.arguments();
        self.set(FormField::Arguments, &presets::join_words(arguments.iter().map(String::as_str)));
        let variables = request.config.environment();
        let variables: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.set(
            FormField::Environment,
            &presets::join_words(variables.iter().map(String::as_str)),
        );
        let stdin = request.config.stdin.as_deref().unwrap_or_default();
        let typed = || (Source::Typed, presets::escape(stdin));
        let (source, stdin) = input.text().unwrap_or_else(typed);
        self.source = source;
        self.set(FormField::Stdin, &stdin);
        let seconds = |n: u64| if n == 0 { String::new() } else { n.to_string() };
        self.set(FormField::Timeout, &seconds(request.config.timeout));
        let run_time_ms = request.config.runtime.as_ref().map_or(0, |runtime| runtime.run_time_ms);
        self.set(FormField::RunLimit, &seconds(run_time_ms.div_ceil(1000)));
        self.set_name();
    }

    /// Returns the request of the form. If a field is invalid, returns `None` and moves the focus
    /// to this field.
    pub(crate) fn request(&mut self, known: ClusterContext<'_>) -> Option<ExecuteRequest> {
        // A file that is uploaded first determines the id and the method, so these are not
        // checked.
        let is_brought = |field: FormField| {
            self.file().is_some() && matches!(field, FormField::FunctionId | FormField::Method)
        };
        let mut fields = FormField::VARIANTS.iter().copied();
        let unfit = fields.find(|it| !is_brought(*it) && !self.check(*it, known).is_fit());
        self.places.iter_mut().for_each(|place| place.is_left = true);
        if let Some(field) = unfit {
            self.focus = field;
            return None;
        }
        Some(self.preview())
    }

    /// Returns the source of standard input. If the field is invalid, it counts as typed text.
    pub(crate) fn input(&self) -> Input {
        Input::read(self.source, self.text(FormField::Stdin)).unwrap_or_default()
    }

    /// Returns the request as far as the form is valid, without standard input from a file or a
    /// dataset.
    pub(crate) fn preview(&self) -> ExecuteRequest {
        let text = |field| self.text(field).trim().to_owned();
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let seconds = |field| text(field).parse::<u64>().unwrap_or(0);
        let arguments = presets::split_words(&text(FormField::Arguments)).unwrap_or_default();
        let parameters: Vec<Parameter> =
            arguments.into_iter().map(|value| Parameter { name: None, value }).collect();
        let variables = variables(&text(FormField::Environment)).unwrap_or_default();
        let run_time_ms = seconds(FormField::RunLimit).saturating_mul(1000);
        let runtime = RuntimeConfig { run_time_ms, ..RuntimeConfig::default() };
        let stdin = match self.source {
            Source::Typed => some(presets::unescape(self.text(FormField::Stdin))),
            Source::File | Source::Rows => None,
        };
        ExecuteRequest {
            function_id: text(FormField::FunctionId),
            method: text(FormField::Method),
            parameters: Some(parameters).filter(|parameters| !parameters.is_empty()),
            config: ExecuteConfig {
                number_of_nodes: text(FormField::Nodes).parse().unwrap_or(1),
                timeout: seconds(FormField::Timeout),
                stdin,
                selector: some(text(FormField::Selector)),
                env_vars: Some(variables).filter(|variables| !variables.is_empty()),
                runtime: Some(runtime).filter(|runtime| *runtime != RuntimeConfig::default()),
                ..ExecuteConfig::default()
            },
            subgroup: some(text(FormField::Subgroup)),
            topic: None,
        }
    }

    fn set(&mut self, field: FormField, text: &str) {
        self.places[field as usize].text.set(text);
    }

    fn set_function(&mut self, function: &FunctionBody) {
        self.set(FormField::Function, &function.name);
        self.set(FormField::FunctionId, &function.function_id);
        self.set(FormField::Method, &function.method);
    }
}

/// Returns true if `text` looks like the path of a local module, and not like a function's name.
fn is_path(text: &str) -> bool {
    let is_module = std::path::Path::new(text).extension().is_some_and(|it| it == "wasm");
    is_module || text.contains(['/', '\\'])
}

/// Parses environment variables.
fn variables(text: &str) -> Result<Vec<EnvVar>, String> {
    let pairs = presets::split_words(text)?;
    pairs
        .into_iter()
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(EnvVar { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("`{pair}` is not NAME=value")),
        })
        .collect()
}

#[cfg(test)]
mod tests;
