//! The form: its fields, what is wrong with them, and the request they make.

use model::{
    function::{FunctionId, Method},
    node::Subgroup,
};
use wire::functions::{EnvVar, ExecuteConfig, ExecuteRequest, FunctionBody, Parameter};

use super::words;
use crate::state::{cluster::Known, field::Field};

/// Nodes a first request asks for: as many as the local stack has workers.
const N_NODES_FIRST: &str = "3";

/// The most nodes a request may ask for; more is a slip of the finger.
const N_NODES_MAX: i64 = 10_000;

/// A field of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FormField {
    /// One of the functions the head holds. Fills in the next two.
    Function,
    /// The function's content id.
    FunctionId,
    /// The file to run.
    Method,
    /// How many nodes.
    Nodes,
    /// The group to choose them from.
    Subgroup,
    /// Arguments.
    Arguments,
    /// Environment.
    Environment,
    /// Standard input.
    Stdin,
}

/// What is to be said about a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// It is fit.
    Fit(String),
    /// It is fit, but the head may refuse it.
    Doubtful(String),
    /// It is not.
    Unfit(String),
}

/// A field, and whether it was left once: what is wrong with it is not told before.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The text.
    pub text: Field,
    /// Whether it was left.
    pub is_left: bool,
}

/// The form.
#[derive(Debug, Clone)]
pub struct Form {
    /// The functions the head holds.
    pub functions: Vec<FunctionBody>,
    places: [Place; FormField::ALL.len()],
    focus: usize,
    is_filled: bool,
}

impl Default for Form {
    fn default() -> Self {
        let mut form =
            Self { functions: Vec::new(), places: Default::default(), focus: 0, is_filled: false };
        form.set(FormField::Nodes, N_NODES_FIRST);
        form
    }
}

impl FormField {
    /// All, in their order.
    pub const ALL: [Self; 8] = [
        Self::Function,
        Self::FunctionId,
        Self::Method,
        Self::Nodes,
        Self::Subgroup,
        Self::Arguments,
        Self::Environment,
        Self::Stdin,
    ];

    /// What the form calls it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::FunctionId => "id",
            Self::Method => "method",
            Self::Nodes => "nodes",
            Self::Subgroup => "subgroup",
            Self::Arguments => "arguments",
            Self::Environment => "environment",
            Self::Stdin => "stdin",
        }
    }

    const fn number(self) -> usize {
        self as usize
    }
}

impl Check {
    /// Whether a request can be made of it.
    #[must_use]
    pub const fn is_fit(&self) -> bool {
        !matches!(self, Self::Unfit(_))
    }
}

impl Form {
    /// The field that letters go to.
    pub fn focused(&self) -> FormField {
        FormField::ALL.get(self.focus).copied().unwrap_or(FormField::Function)
    }

    /// A field and its state.
    pub fn place(&self, field: FormField) -> &Place {
        // There is a place for each field, by the type of the array.
        self.places.get(field.number()).unwrap_or(&self.places[0])
    }

    /// The text of a field.
    pub fn text(&self, field: FormField) -> &str {
        self.place(field).text.value()
    }

    /// The text that letters go to; none on the picker of functions, which has no text.
    pub fn field(&mut self) -> Option<&mut Field> {
        let focus = self.focus;
        self.places.get_mut(focus).map(|place| &mut place.text).filter(|_| focus != 0)
    }

    /// Goes `by` fields on, or back, around the end.
    pub fn move_focus(&mut self, by: isize) {
        let n = FormField::ALL.len();
        let next = (self.focus + n).saturating_add_signed(by) % n;
        self.focus_on(next);
    }

    /// Goes to field number `number`.
    pub fn focus_on(&mut self, number: usize) {
        if let Some(place) = self.places.get_mut(self.focus) {
            place.is_left = true;
        }
        self.focus = number.min(FormField::ALL.len() - 1);
    }

    /// The head holds these functions. The first is filled in if the form is still as it was.
    pub fn know(&mut self, functions: Vec<FunctionBody>) {
        self.functions = functions;
        if !self.is_filled && self.text(FormField::FunctionId).is_empty() {
            let hello = self.functions.iter().position(|function| function.name == "hello");
            self.take_function(hello.unwrap_or(0));
        }
    }

    /// The known function that the id and the method name, and its number.
    pub fn function(&self) -> Option<(usize, &FunctionBody)> {
        let (id, method) = (self.text(FormField::FunctionId), self.text(FormField::Method));
        let is_it = |function: &&FunctionBody| {
            function.function_id == id.trim() && function.method == method.trim()
        };
        let (idx, function) =
            self.functions.iter().enumerate().find(|(_, function)| is_it(function))?;
        Some((idx, function))
    }

    /// Takes the known value `by` places on for the focused field; where there is none, goes to the
    /// next or the previous field.
    pub fn choose(&mut self, by: isize, known: Known<'_>) {
        match self.focused() {
            FormField::Function if !self.functions.is_empty() => {
                let n = self.functions.len();
                let idx = match self.function() {
                    Some((idx, _)) => (idx + n).saturating_add_signed(by) % n,
                    None => 0,
                };
                self.take_function(idx);
            }
            FormField::Nodes => {
                let number = self.text(FormField::Nodes).trim().parse().unwrap_or(0_i64);
                let by = i64::try_from(by).unwrap_or(0);
                // Down is more, as further on in a list.
                let number = number.saturating_add(by).clamp(1, N_NODES_MAX);
                self.set(FormField::Nodes, &number.to_string());
            }
            FormField::Subgroup => {
                let mut groups = vec![String::new()];
                groups.extend(known.nodes.subgroups(known.stack));
                let now = self.text(FormField::Subgroup);
                let idx = groups.iter().position(|group| group == now);
                let idx = idx
                    .map_or(0, |idx| (idx + groups.len()).saturating_add_signed(by) % groups.len());
                let group = groups.get(idx).cloned().unwrap_or_default();
                self.set(FormField::Subgroup, &group);
            }
            _ => self.move_focus(by.signum()),
        }
    }

    /// Fills the form with what was asked before.
    pub fn fill(&mut self, request: &ExecuteRequest) {
        self.set(FormField::FunctionId, &request.function_id);
        self.set(FormField::Method, &request.method);
        self.set(FormField::Nodes, &request.config.number_of_nodes.max(1).to_string());
        self.set(FormField::Subgroup, request.group().unwrap_or_default());
        let arguments = request.arguments();
        self.set(FormField::Arguments, &words::join(arguments.iter().map(String::as_str)));
        let variables = request.config.environment();
        let variables: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.set(FormField::Environment, &words::join(variables.iter().map(String::as_str)));
        let stdin = request.config.stdin.as_deref().unwrap_or_default();
        self.set(FormField::Stdin, &words::escape(stdin));
        self.is_filled = true;
    }

    /// What is to be said about a field; the text of a fit one explains it.
    pub fn check(&self, field: FormField, known: Known<'_>) -> Check {
        let text = self.text(field).trim();
        match field {
            FormField::Function => self.check_function(),
            FormField::FunctionId => match text.parse::<FunctionId>() {
                _ if text.is_empty() => Check::Unfit("a content id (CID) is needed".to_owned()),
                Ok(_) => Check::Fit(self.earlier_runs(known)),
                Err(_) => Check::Unfit("no content id (CID), such as bafkrei…".to_owned()),
            },
            FormField::Method => match text.parse::<Method>() {
                Err(_) => Check::Unfit("the name of one file is needed".to_owned()),
                Ok(method) if method.as_str().strip_suffix(".wasm").is_none() => {
                    Check::Doubtful("does not end in .wasm".to_owned())
                }
                Ok(_) => Check::Fit("the file inside the function to run".to_owned()),
            },
            FormField::Nodes => self.check_nodes(known),
            FormField::Subgroup => check_subgroup(text, known),
            FormField::Arguments => match words::split(text) {
                Err(error) => Check::Unfit(error.to_string()),
                Ok(_) => Check::Fit("apart by spaces; quotes hold words together".to_owned()),
            },
            FormField::Environment => match variables(text) {
                Err(error) => Check::Unfit(error),
                Ok(_) => Check::Fit("NAME=value, apart by spaces".to_owned()),
            },
            FormField::Stdin => Check::Fit("\\n is a line break".to_owned()),
        }
    }

    /// The request that the form makes, if every field is fit; otherwise goes to the first that is
    /// not.
    pub fn request(&mut self, known: Known<'_>) -> Option<ExecuteRequest> {
        let unfit = FormField::ALL.into_iter().find(|field| !self.check(*field, known).is_fit());
        for place in &mut self.places {
            place.is_left = true;
        }
        if let Some(field) = unfit {
            self.focus = field.number();
            return None;
        }
        Some(self.preview())
    }

    /// The request as it stands, fit or not.
    pub fn preview(&self) -> ExecuteRequest {
        let text = |field| self.text(field).trim().to_owned();
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let arguments = words::split(&text(FormField::Arguments)).unwrap_or_default();
        let parameters: Vec<Parameter> =
            arguments.into_iter().map(|value| Parameter { name: None, value }).collect();
        let variables = variables(&text(FormField::Environment)).unwrap_or_default();
        ExecuteRequest {
            function_id: text(FormField::FunctionId),
            method: text(FormField::Method),
            parameters: Some(parameters).filter(|parameters| !parameters.is_empty()),
            config: ExecuteConfig {
                number_of_nodes: text(FormField::Nodes).parse().unwrap_or(1),
                stdin: some(words::unescape(self.text(FormField::Stdin))),
                env_vars: Some(variables).filter(|variables| !variables.is_empty()),
                ..ExecuteConfig::default()
            },
            subgroup: some(text(FormField::Subgroup)),
            topic: None,
        }
    }

    fn set(&mut self, field: FormField, text: &str) {
        if let Some(place) = self.places.get_mut(field.number()) {
            place.text.set(text);
        }
    }

    fn take_function(&mut self, idx: usize) {
        if let Some(function) = self.functions.get(idx).cloned() {
            self.set(FormField::FunctionId, &function.function_id);
            self.set(FormField::Method, &function.method);
        }
    }

    fn check_function(&self) -> Check {
        match (self.function(), self.functions.len()) {
            (Some((idx, function)), n) => {
                let place = format!("{} of {n} the head holds", idx + 1);
                let size = crate::widget::format::bytes(function.bytes);
                Check::Fit(if function.bytes == 0 { place } else { format!("{place} · {size}") })
            }
            (None, 0) => Check::Fit("the head lists no functions; give an id".to_owned()),
            (None, n) => Check::Fit(format!("none of the {n} the head holds")),
        }
    }

    fn check_nodes(&self, known: Known<'_>) -> Check {
        let Ok(number) = self.text(FormField::Nodes).trim().parse::<i64>() else {
            return Check::Unfit("a whole number, 1 or more; -1 for everyone".to_owned());
        };
        if number == -1 {
            return Check::Fit("everyone who answers".to_owned());
        }
        if !(1..=N_NODES_MAX).contains(&number) {
            return Check::Unfit("a whole number, 1 or more; -1 for everyone".to_owned());
        }
        let subgroup = self.text(FormField::Subgroup).trim();
        let n_known = known.nodes.n_workers_in(subgroup, known.stack);
        let place = match subgroup {
            "" => "the cluster".to_owned(),
            name => format!("subgroup \"{name}\""),
        };
        if usize::try_from(number).is_ok_and(|number| number > n_known) && n_known > 0 {
            return Check::Doubtful(format!(
                "only {n_known} workers known in {place}: the head may refuse"
            ));
        }
        Check::Fit(format!("of {n_known} workers known in {place}"))
    }

    fn earlier_runs(&self, known: Known<'_>) -> String {
        let id = self.text(FormField::FunctionId).trim();
        match known.runs.iter().filter(|run| run.request.function_id == id).count() {
            0 => "not run yet in this session".to_owned(),
            1 => "1 earlier run".to_owned(),
            n => format!("{n} earlier runs"),
        }
    }
}

fn check_subgroup(text: &str, known: Known<'_>) -> Check {
    let groups = known.nodes.subgroups(known.stack);
    if text.is_empty() {
        let hint = "empty: every node";
        return Check::Fit(if groups.is_empty() {
            hint.to_owned()
        } else {
            format!("{hint}; ↓ for known: {}", groups.join(", "))
        });
    }
    match text.parse::<Subgroup>() {
        Err(_) => Check::Unfit("1 to 128 bytes without spaces".to_owned()),
        Ok(_) if groups.iter().any(|group| group == text) || groups.is_empty() => {
            Check::Fit("only nodes of this group".to_owned())
        }
        Ok(_) => Check::Doubtful(format!("no node known in \"{text}\"")),
    }
}

/// The variables that `text` names.
fn variables(text: &str) -> Result<Vec<EnvVar>, String> {
    let pairs = words::split(text).map_err(|error| error.to_string())?;
    pairs
        .into_iter()
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(EnvVar { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("`{pair}` is no NAME=value")),
        })
        .collect()
}

#[cfg(test)]
mod tests;
