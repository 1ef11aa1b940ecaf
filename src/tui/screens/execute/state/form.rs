//! The state of the form: its fields, their errors, and its request.

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

/// Maximum number of datasets offered as input.
const DATASETS_MAX: usize = 250;

/// Default window of a dataset.
const WINDOW_FIRST: &str = "24h";

/// Field of the form. The names are the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub(crate) enum FormField {
    /// Name of a function of the head, a content id, or the path of a local module. Fills in the
    /// next two fields.
    Function,
    /// The function's content id.
    #[strum(serialize = "id")]
    FunctionId,
    /// Method: the file of the function to execute.
    Method,
    /// Number of nodes that execute the function.
    Nodes,
    /// Group of the nodes that execute the function.
    Subgroup,
    /// Required attributes of the nodes.
    Selector,
    Arguments,
    Environment,
    /// The source of standard input.
    #[strum(serialize = "stdin")]
    Source,
    /// Standard input: the text, a file path, or a dataset and a window.
    #[strum(serialize = "")]
    Stdin,
    /// Seconds for which the head waits for nodes.
    Timeout,
    /// Maximum run time of the function in seconds.
    #[strum(serialize = "run limit")]
    RunLimit,
}

/// The hint or error of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Check {
    /// Valid, with a hint.
    Fit(String),
    /// Valid, but the head can refuse it.
    Doubtful(String),
    /// Invalid, with the error.
    Unfit(String),
}

/// A field. Its error is shown after the field was left once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) text: Field,
    /// True if the field was left once.
    pub(crate) is_left: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Form {
    /// Functions of the head, each content once.
    pub(crate) functions: Vec<FunctionBody>,
    /// Additional names of content, by its id.
    other_names: BTreeMap<String, Vec<String>>,
    /// Names of datasets, offered as input.
    pub(crate) datasets: Vec<String>,
    /// The source of standard input.
    pub(crate) source: Source,
    /// True if known values are listed below the focused field.
    pub(crate) is_open: bool,
    places: [Place; FormField::VARIANTS.len()],
    /// The focused field.
    pub(crate) focus: FormField,
    is_filled: bool,
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
            is_filled: false,
        };
        // The local stack has three workers.
        form.set(FormField::Nodes, "3");
        form
    }
}

impl Check {
    /// Returns true if the field does not prevent a request.
    pub(crate) const fn is_fit(&self) -> bool {
        !matches!(self, Self::Unfit(_))
    }
}

impl Form {
    /// Returns a field and its state.
    pub(crate) fn place(&self, field: FormField) -> &Place {
        &self.places[field as usize]
    }

    /// Returns the text of a field.
    pub(crate) fn text(&self, field: FormField) -> &str {
        self.place(field).text.value()
    }

    /// Returns the focused text field, or `None` if the focused field is a choice.
    pub(crate) fn field(&mut self) -> Option<&mut Field> {
        let is_text = self.focus != FormField::Source;
        is_text.then_some(&mut self.places[self.focus as usize].text)
    }

    /// Replaces the text by a pasted function id or path. Returns true if it was one.
    pub(crate) fn paste_command(&mut self, text: &str) -> bool {
        let text = text.trim();
        let is_whole = text.parse::<FunctionId>().is_ok() || is_path(text);
        if self.focus == FormField::Function && is_whole {
            self.set(FormField::Function, text);
            return true;
        }
        false
    }

    /// Handles an edit of the focused field.
    pub(crate) fn edited(&mut self) {
        match self.focus {
            FormField::Function => {
                self.is_filled = true;
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

    /// Fills in the name of the function with this id and method.
    fn set_name(&mut self) {
        let name = self.function().map(|(_, function)| function.name.clone());
        self.set(FormField::Function, &name.unwrap_or_default());
    }

    /// Returns the path of a local module that has to be uploaded first.
    pub(crate) fn file(&self) -> Option<&str> {
        let text = self.text(FormField::Function).trim();
        let is_known = self.functions.iter().any(|it| self.names_of(it).any(|name| name == text));
        (is_path(text) && !is_known).then_some(text)
    }

    /// Selects a function that was added to the head.
    pub(crate) fn added(&mut self, function: &FunctionBody) {
        if !self.functions.contains(function) {
            let mut functions = std::mem::take(&mut self.functions);
            functions.push(function.clone());
            self.functions = self.merge_names(functions);
            self.functions.sort();
        }
        self.set_function(function);
        self.is_filled = true;
    }

    /// Returns the known function of the form, unless another one is being searched for.
    pub(crate) fn chosen_function(&self) -> Option<&FunctionBody> {
        let text = self.text(FormField::Function).trim();
        let (_, function) = self.function()?;
        let is_named = self.names_of(function).any(|name| name == text);
        let is_it = text.is_empty() || is_named || function.function_id == text;
        is_it.then_some(function)
    }

    /// Returns the known functions with the typed text in their names, and the index of the selected
    /// function. Returns all functions if one is selected.
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

    /// Moves the focus by `by` fields, wrapping around. Moving on completes a name.
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

    /// Sets the functions of the head. Fills in the first one if the form is unchanged.
    pub(crate) fn know(&mut self, functions: Vec<FunctionBody>) {
        self.functions = self.merge_names(functions);
        if !self.is_filled && self.text(FormField::FunctionId).is_empty() {
            let hello = self.functions.iter().find(|function| function.name == "hello");
            if let Some(function) = hello.or(self.functions.first()).cloned() {
                self.set_function(&function);
            }
        }
    }

    /// Returns the known function with the form's id and method, and its index.
    pub(crate) fn function(&self) -> Option<(usize, &FunctionBody)> {
        let text = |field| self.text(field).trim();
        self.find(text(FormField::FunctionId), text(FormField::Method))
    }

    /// Returns a function of the head and its index.
    pub(crate) fn find(&self, id: &str, method: &str) -> Option<(usize, &FunctionBody)> {
        let is_it = |it: &FunctionBody| (&*it.function_id, &*it.method) == (id, method);
        self.functions.iter().enumerate().find(|(_, function)| is_it(function))
    }

    /// Returns the name of the function of `request`, if known.
    pub(crate) fn name_of(&self, request: &ExecuteRequest) -> Option<&str> {
        let (_, function) = self.find(&request.function_id, &request.method)?;
        Some(function.name.as_str())
    }

    /// Selects the known value `by` positions further for the focused field. Without known values,
    /// moves to the next or previous field.
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

    /// Fills the form from an earlier request.
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
        self.is_filled = true;
    }

    /// Returns the request of the form, or focuses the first invalid field.
    pub(crate) fn request(&mut self, known: ClusterContext<'_>) -> Option<ExecuteRequest> {
        // A file to be uploaded determines id and method.
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

    /// Returns the source of standard input. An invalid field counts as typed input.
    pub(crate) fn input(&self) -> Input {
        Input::read(self.source, self.text(FormField::Stdin)).unwrap_or_default()
    }

    /// Returns the current request, valid or not, without standard input from a file or a dataset.
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

/// Returns true if `text` is a path of a local module and not a function of the head.
fn is_path(text: &str) -> bool {
    let is_module = std::path::Path::new(text).extension().is_some_and(|it| it == "wasm");
    is_module || text.contains(['/', '\\'])
}

/// Parses environment variables.
fn variables(text: &str) -> Result<Vec<EnvVar>, String> {
    let pairs = presets::split_words(text).map_err(|error| error.to_string())?;
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
