//! Checks of the configuration file, of API keys and of all configured services.

use std::collections::BTreeMap;

use super::Finding;
use crate::cli::config::{AddressFlags, Profile, choose_profile, head_token};
use crate::cli::secret;
use crate::cli::services::{KeyFlag, read_key_file};
use ::tui::profiles::NO_PROFILE;
use client::datasets::{Datasets, DatasetsQuery};
use client::error::ClientError;
use client::functions::Functions;
use client::inference::Inference;
use client::transport::Transport;
use futures::future::join_all;
use model::address::redact_address;
use model::count::counted;
use model::key::ApiKey;
use stack::local::Addresses;
use stack::running::find_running;

/// Name shown, in place of a profile's, for addresses from flags or the environment.
const HERE: &str = "this command";

/// Checks the configuration file, and all services that are named in the file, by flags or by the
/// environment. Also checks the running local stack if other commands would use it by default.
pub(super) async fn check(flags: AddressFlags, key: KeyFlag) -> Vec<Finding> {
    let what = "configuration";
    let (chosen, mut profiles) = match choose_profile(flags, None) {
        Ok(found) => found,
        Err(error) => {
            let next = "correct it; `triptych --print-config` prints all settings";
            return vec![Finding::failed(what, &*error, next)];
        }
    };
    let mut findings = vec![Finding::ok(what, counted(profiles.len(), "profile"))];
    let given = key.key_file.map(|path| read_key_file(&path)).transpose();
    let given = given.unwrap_or_else(|error| {
        findings.push(Finding::failed("API key", &*error, "correct --key-file"));
        None
    });
    if let Some(chosen) = chosen {
        profiles.insert(chosen.name.unwrap_or_else(|| HERE.to_owned()), chosen.profile);
    } else if given.is_none() && matches!(secret::key(None).await, Ok(None)) {
        findings.extend(check_local_stack(profiles.is_empty()).await);
    }
    findings.extend(check_profiles(profiles, given).await);
    findings
}

/// Checks the local stack, if it is running. `is_only` is true if no other services are configured. In
/// this case, a stack that is not running is reported, since there is nothing else to check.
async fn check_local_stack(is_only: bool) -> Vec<Finding> {
    match find_running().map(|stack| stack.addresses) {
        None if is_only => {
            vec![Finding::ok("services", "none are configured: `triptych` starts its own")]
        }
        None => Vec::new(),
        Some(Addresses { heads, datasets, inference, api_key, .. }) => {
            let profile = Profile { heads, datasets, inference };
            check_profile("local stack", profile, api_key).await
        }
    }
}

async fn check_profiles(
    profiles: BTreeMap<String, Profile>,
    given: Option<ApiKey>,
) -> Vec<Finding> {
    let checks = profiles.into_iter().map(async |(name, profile)| {
        let key = match given.clone() {
            Some(key) => Ok(Some(key)),
            None => secret::key(Some(if name == HERE { NO_PROFILE } else { &name })).await,
        };
        match key {
            Ok(key) => check_profile(&name, profile, key).await,
            Err(error) => {
                let what = format!("API key of {name}");
                vec![Finding::failed(what, &*error, "store another with `triptych keys store`")]
            }
        }
    });
    join_all(checks).await.concat()
}

async fn check_profile(name: &str, profile: Profile, key: Option<ApiKey>) -> Vec<Finding> {
    let Profile { heads, datasets, inference } = profile;
    let head = |address| ("head", address, "name the head's token in TRIPTYCH_REST_TOKEN");
    let datasets = datasets.map(|address| ("datasets", address, KEY_ADVICE));
    let inference = inference.map(|address| ("inference", address, KEY_ADVICE));
    let services = heads.into_iter().map(head).chain(datasets).chain(inference);
    let checks = services.map(|(service, address, advice)| {
        let key = key.clone();
        async move {
            let what = format!("{service} of {name} at {}", redact_address(&address));
            let checked = async {
                let transport = Transport::new(&address, key)?;
                match service {
                    "head" => check_head(&what, transport).await,
                    "datasets" => check_datasets(&what, transport).await,
                    _ => check_inference(&what, transport).await,
                }
            };
            checked.await.unwrap_or_else(|error| {
                let next = match (error.status(), &error) {
                    (Some(401 | 403), _) => advice,
                    // Every service of this kind has the paths that are checked.
                    (Some(404), _) => "check that the address is that of the right service",
                    // The requests here are short.
                    (_, ClientError::TimedOut { .. }) => {
                        "look at the log of the service and at the load of its machine"
                    }
                    _ => error.next_step(),
                };
                Finding::failed(what, &error, next)
            })
        }
    });
    join_all(checks).await
}

/// Advice if a service rejects the key.
const KEY_ADVICE: &str = "create one with `triptych keys create NAME` where the service runs, and store it here \
     with `triptych keys store`";

async fn check_head(what: &str, transport: Transport) -> Result<Finding, ClientError> {
    // An invalid token is ignored here, since the commands that need a token report it.
    let token = head_token().ok().flatten();
    let nodes = Functions::new(transport.with_token(token)).nodes().await?;
    let workers = nodes.iter().filter(|it| it.connected && it.role.as_deref() == Some("worker"));
    Ok(match workers.count() {
        0 => Finding::warning(
            what,
            "responds, but no worker is connected",
            "start one: triptych node --boot-nodes MULTIADDRESS",
        ),
        n_workers => Finding::ok(what, format!("responds, with {}", counted(n_workers, "worker"))),
    })
}

async fn check_datasets(what: &str, transport: Transport) -> Result<Finding, ClientError> {
    let datasets = Datasets::new(transport);
    datasets.health().await?;
    datasets.list(&DatasetsQuery { limit: Some(1), ..DatasetsQuery::default() }).await?;
    Ok(Finding::ok(what, "responds, and accepts the key"))
}

async fn check_inference(what: &str, transport: Transport) -> Result<Finding, ClientError> {
    let inference = Inference::new(transport);
    inference.health().await?;
    let n_topics = inference.topics().await?.topics.len();
    Ok(Finding::ok(what, format!("responds, with {}", counted(n_topics, "topic"))))
}
