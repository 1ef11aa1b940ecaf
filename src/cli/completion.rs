//! Shell completion of option values, from fixed lists and from names that are queried from the
//! configured services. For each completion the shell runs this program with an environment variable.

use std::env;
use std::time::Duration;

use ::tui::theme;
use clap::{Arg, Command, CommandFactory as _};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use client::datasets::DatasetsQuery;
use stack::data_dir::project_dirs;
use tokio::time::timeout;

use crate::cli::config::{self, AddressFlags};
use crate::cli::help;
use crate::cli::services::{self, KeyFlag, Services};
use crate::cli::tui::user_files;

/// Environment variable with which a shell requests completions.
pub(super) const VARIABLE: &str = "TRIPTYCH_COMPLETE";

/// Maximum time to wait for a response of a service. It is short because the user is waiting at the
/// prompt.
const WITHIN: Duration = Duration::from_millis(700);

/// Maximum number of names offered.
const NAMES_MAX: usize = 200;

/// Prints completions and exits the process if a shell requested completions. Does nothing otherwise.
pub(super) fn complete_if_requested() {
    // The variable is checked first so that ordinary starts, which are nearly all starts, skip the setup
    // of the commands.
    if env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(command).var(VARIABLE).complete();
    }
}

/// Returns the command tree of the program with completion candidates for option values.
fn command() -> Command {
    with_candidates(help::with_endings(super::Cli::command()))
}

fn with_candidates(command: Command) -> Command {
    command.mut_args(with_values).mut_subcommands(with_candidates)
}

fn with_values(argument: Arg) -> Arg {
    let value = argument.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
    let value = value.unwrap_or_default();
    let candidates = match (argument.get_id().as_str(), value.as_str()) {
        ("theme", _) => ArgValueCandidates::new(|| offer(built_in_themes().chain(own_themes()))),
        ("print_theme", _) => ArgValueCandidates::new(|| offer(built_in_themes())),
        ("role", _) => listed(&["head", "worker"]),
        ("symbols", _) => listed(&["braille", "blocks", "ascii"]),
        ("format", _) => listed(&["csv", "ndjson", "json", "parquet", "arrow"]),
        ("profile", _) => ArgValueCandidates::new(profiles),
        (_, "RESOLUTION") => listed(&["raw", "5m", "15m", "1h", "4h", "1d"]),
        ("fill", _) => listed(&["null", "previous", "linear"]),
        (_, "LEVEL") => listed(&["error", "warn", "info", "debug", "trace"]),
        (_, "open|closed") => listed(&["open", "closed"]),
        (_, "DATASET") => ArgValueCandidates::new(datasets),
        ("topic", "TOPIC") => ArgValueCandidates::new(topics),
        (_, "CID" | "CID_OR_NAME_OR_PATH" | "CID_OR_NAME") => ArgValueCandidates::new(functions),
        _ => return argument,
    };
    argument.add(candidates)
}

fn listed(values: &'static [&'static str]) -> ArgValueCandidates {
    ArgValueCandidates::new(move || offer(values.iter().map(ToString::to_string)))
}

fn offer(values: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    values.take(NAMES_MAX).map(CompletionCandidate::new).collect()
}

fn built_in_themes() -> impl Iterator<Item = String> {
    let names = theme::Name::ALL.into_iter().map(|name| name.to_string());
    std::iter::once("auto".to_owned()).chain(names)
}

/// Returns the names of the themes in the user's configuration directory.
fn own_themes() -> impl Iterator<Item = String> {
    let files = project_dirs().and_then(|dirs| user_files::theme_files(dirs.config_dir()));
    files.unwrap_or_default().into_iter().map(|(name, _)| name)
}

fn profiles() -> Vec<CompletionCandidate> {
    let known = config::choose_profile(AddressFlags::default(), None);
    offer(known.map(|(_, profiles)| profiles).unwrap_or_default().into_keys())
}

fn datasets() -> Vec<CompletionCandidate> {
    offer(query_services(async |services: Services| {
        let page = services.datasets().ok()?.list(&DatasetsQuery::default()).await.ok()?;
        Some(page.datasets.into_iter().map(|dataset| dataset.name).collect())
    }))
}

fn topics() -> Vec<CompletionCandidate> {
    offer(query_services(async |services: Services| {
        let topics = services.inference().ok()?.topics().await.ok()?.topics;
        Some(topics.into_iter().map(|topic| topic.topic_id.to_string()).collect())
    }))
}

fn functions() -> Vec<CompletionCandidate> {
    offer(query_services(async |services: Services| {
        let head = services::head(services.profile.heads.first()?).ok()?;
        let listed = head.functions().await.ok()?;
        Some(listed.into_iter().map(|function| function.name).collect())
    }))
}

/// Queries the services that the environment, the profile or the running local stack names. Returns no
/// names if a service does not respond in time.
fn query_services(
    query: impl AsyncFnOnce(Services) -> Option<Vec<String>>,
) -> impl Iterator<Item = String> {
    let variable = |name| config::variable(name).ok().flatten();
    let flags = AddressFlags {
        heads: variable("TRIPTYCH_HEAD").into_iter().collect(),
        datasets: variable("TRIPTYCH_DATASETS"),
        inference: variable("TRIPTYCH_INFERENCE"),
        profile: variable("TRIPTYCH_PROFILE"),
    };
    let work = async {
        let services = Services::choose(flags, KeyFlag::default()).await.ok()?;
        query(services).await
    };
    let names = super::block_on_one_thread(async { Ok(timeout(WITHIN, work).await) });
    let names = names.ok().and_then(Result::ok).flatten().unwrap_or_default();
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the candidates for the last of `words`.
    fn candidates(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = words.iter().map(Into::into).collect();
        let last = words.len() - 1;
        let all = clap_complete::engine::complete(&mut command(), words, last, None).unwrap();
        let value =
            |candidate: &CompletionCandidate| candidate.get_value().to_string_lossy().into_owned();
        all.iter().filter(|candidate| !candidate.is_hide_set()).map(value).collect()
    }

    #[test]
    fn completion_offers_the_valid_values_of_an_option() {
        assert_eq!(candidates(&["triptych", "node", "--role", ""]), ["head", "worker"]);
        assert!(candidates(&["triptych", "--theme", "l"]).contains(&"light".to_owned()));
        assert!(candidates(&["triptych", "keys", "sign-up", ""]).contains(&"closed".to_owned()));
        let formats = candidates(&["triptych", "datasets", "export", "x", "--format", "p"]);
        assert_eq!(formats, ["parquet"]);
    }

    #[test]
    fn completion_omits_hidden_options() {
        for words in [["triptych", "--"].as_slice(), &["triptych", "up", "--"]] {
            let all = candidates(words);
            assert!(!all.is_empty());
            let is_hidden = |it: &String| it.contains("stop-with-stdin") || it.contains("break-in");
            assert!(!all.iter().any(is_hidden), "{all:?}");
        }
    }
}
