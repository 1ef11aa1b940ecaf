//! Rejects query parameters that an endpoint does not have.
//!
//! A misspelt bound must not be ignored, and a repeated parameter is ambiguous. The known names come
//! from the API description. Handlers therefore do not list them again, and endpoints without parameters
//! are covered, too.

use std::collections::{HashMap, HashSet};

use axum::Router;
use axum::extract::MatchedPath;
use axum::http::{Method, Uri};
use axum::response::Response;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr};

use crate::extract::{BodyError, pairs};
use crate::middleware::wrap;

/// Minimum similarity, from 0 to 1, between a misspelt name and the name that is suggested instead:
/// `strat` and `start` have 0.95, `from` and `offset` 0.47.
const LIKE_MIN: f64 = 0.75;

/// Names of the query parameters of each operation.
#[derive(Debug)]
struct QueryNames {
    /// Methods of each path, with the names of their parameters.
    operations: HashMap<String, Vec<(Method, Vec<String>)>>,
}

/// Rejects requests to `router` that repeat a query parameter, or have a parameter that is not in the
/// description `api`. Paths in `any_name` accept every parameter.
///
/// Names that begin with an underscore are ignored, since scripts add such parameters to bypass caches.
pub fn check_query_names<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    api: &OpenApi,
    any_name: &'static [&'static str],
    reject: fn(BodyError) -> Response,
) -> Router<S> {
    let names = QueryNames::from_api(api);
    wrap(router, move |request, next| {
        let path = request.extensions().get().map(MatchedPath::as_str);
        let checked = path.map_or(Ok(()), |path| {
            let known = names.find(path, request.method());
            check(request.uri(), known.filter(|_| !any_name.contains(&path)))
        });
        async move {
            match checked {
                Ok(()) => next.run(request).await,
                Err(error) => reject(error),
            }
        }
    })
}

impl QueryNames {
    fn from_api(api: &OpenApi) -> Self {
        let operations = api.paths.paths.iter().map(|(path, item)| {
            let methods = methods_of(item).into_iter();
            let named = methods.filter_map(|(method, operation)| {
                operation.as_ref().map(|operation| (method, names_of(operation)))
            });
            (path.clone(), named.collect())
        });
        Self { operations: operations.collect() }
    }

    /// Returns the parameter names of an operation, or `None` if the path does not support the method.
    fn find(&self, path: &str, method: &Method) -> Option<&[String]> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let mut methods = self.operations.get(path)?.iter();
        methods.find(|(other, _)| other == method).map(|(_, names)| names.as_slice())
    }
}

fn methods_of(item: &PathItem) -> [(Method, &Option<Operation>); 5] {
    [
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::DELETE, &item.delete),
        (Method::PATCH, &item.patch),
    ]
}

fn names_of(operation: &Operation) -> Vec<String> {
    let parameters = operation.parameters.iter().flatten();
    let names = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => {
            Some(parameter.name.clone())
        }
        _ => None,
    });
    names.collect()
}

/// Checks the query string of `uri`. The names of parameters must be unique and, unless `known` is
/// `None`, among `known`.
fn check(uri: &Uri, known: Option<&[String]>) -> Result<(), BodyError> {
    if uri.query().is_none_or(str::is_empty) {
        return Ok(());
    }
    let pairs = pairs(uri)?;
    let mut seen = HashSet::new();
    for (name, _) in pairs.iter().filter(|(name, _)| !is_ignored(name)) {
        if !seen.insert(name) {
            return Err(BodyError::Invalid(format!("parameter {name} is given more than once")));
        }
        if let Some(known) = known
            && !known.contains(name)
        {
            let hint = hint(name, known);
            return Err(BodyError::Invalid(format!("unknown parameter {name}; {hint}")));
        }
    }
    Ok(())
}

fn is_ignored(name: &str) -> bool {
    name.is_empty() || name.starts_with('_')
}

/// Returns a suggestion for a misspelt `name`, or else the list of known names.
fn hint(name: &str, known: &[String]) -> String {
    let like = |known: &str| strsim::jaro_winkler(&name.to_lowercase(), known);
    let nearest = known.iter().max_by(|a, b| like(a).total_cmp(&like(b)));
    match nearest.filter(|nearest| like(nearest) >= LIKE_MIN) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None if known.is_empty() => "there are none here".to_owned(),
        None => format!("known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(query: &str, known: &[&str], want: Result<(), &str>) {
        let uri = format!("/rows?{query}").parse().unwrap();
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        let got = check(&uri, Some(&known)).map_err(|error| error.to_string());
        assert_eq!(got, want.map_err(str::to_owned), "{query}");
    }

    #[test]
    fn unknown_and_repeated_query_parameters_are_rejected() {
        let known = ["start", "end", "offset"];
        check_text("start=1&end=2", &known, Ok(()));
        check_text("", &known, Ok(()));
        check_text("_=17&_=18", &known, Ok(()));
        check_text("strat=1", &known, Err("unknown parameter strat; did you mean start?"));
        check_text("x=1", &known, Err("unknown parameter x; known are start, end, offset"));
        check_text("x=1", &[], Err("unknown parameter x; there are none here"));
        check_text("end=1&end=1", &known, Err("parameter end is given more than once"));
    }

    #[test]
    fn first_unknown_parameter_is_reported_among_thousands() {
        let query: Vec<String> = (0..5000).map(|idx| format!("x{idx}=")).collect();
        check_text(&query.join("&"), &["start"], Err("unknown parameter x0; known are start"));
    }
}
