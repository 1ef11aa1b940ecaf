//! The configuration file, keys, and every address in it.

use std::collections::BTreeMap;

use ::tui::profiles::NO_PROFILE;
use client::{
    datasets::{Datasets, DatasetsQuery},
    error::ClientError,
    functions::Functions,
    inference::Inference,
    transport::Transport,
};
use futures::future::join_all;
use model::{address::redact_address, count::counted, key::ApiKey};
use stack::{local::Addresses, running::find_running};
use task::causes::chain;

use super::Finding;
use crate::cli::{
    config::{AddressFlags, Profile, choose_profile, head_token},
    secret,
    services::{KeyFlag, key_of},
};

/// What addresses are called that stand in no profile.
const HERE: &str = "this command";

/// Checks the configuration file and every service that it, the flags or the environment name, and the
/// local stack if other commands use that.
pub(super) async fn check(flags: AddressFlags, key: KeyFlag) -> Vec<Finding> {
    let what = "configuration";
    let (chosen, mut profiles) = match choose_profile(flags, None) {
        Ok(found) => found,
        Err(error) => {
            let next = "correct it; `triptych --print-config` prints all that may stand there";
            return vec![Finding::failed(what, &error, next)];
        }
    };
    let mut findings = vec![Finding::ok(what, counted(profiles.len(), "profile"))];
    let given = key.key_file.map(|path| key_of(&path)).transpose();
    let given = given.unwrap_or_else(|error| {
        findings.push(Finding::failed("API key", &error, "correct --key-file"));
        None
    });
    if let Some(chosen) = chosen {
        profiles.insert(chosen.name.unwrap_or_else(|| HERE.to_owned()), chosen.profile);
    } else if given.is_none() && matches!(secret::key(None).await, Ok(None)) {
        findings.extend(local_stack(profiles.is_empty()).await);
    }
    findings.extend(all(profiles, given).await);
    findings
}

/// Checks the local stack that runs, if any. `is_alone`: nothing else is checked.
async fn local_stack(is_alone: bool) -> Vec<Finding> {
    match find_running() {
        None if is_alone => {
            vec![Finding::ok("services", "none are named: `triptych` starts its own")]
        }
        None => Vec::new(),
        Some(Addresses { heads, datasets, inference, api_key, .. }) => {
            let profile = Profile { heads, datasets, inference };
            of_profile("local stack", profile, api_key).await
        }
    }
}

async fn all(profiles: BTreeMap<String, Profile>, given: Option<ApiKey>) -> Vec<Finding> {
    let checks = profiles.into_iter().map(async |(name, profile)| {
        let key = match given.clone() {
            Some(key) => Ok(Some(key)),
            None => secret::key(Some(if name == HERE { NO_PROFILE } else { &name })).await,
        };
        match key {
            Ok(key) => of_profile(&name, profile, key).await,
            Err(error) => {
                let what = format!("API key of {name}");
                vec![Finding::failed(what, &error, "keep another with `triptych keys store`")]
            }
        }
    });
    join_all(checks).await.concat()
}

async fn of_profile(name: &str, profile: Profile, key: Option<ApiKey>) -> Vec<Finding> {
    let Profile { heads, datasets, inference } = profile;
    let head = |address| ("head", address, "name the head's token in TRIPTYCH_REST_TOKEN");
    let datasets = datasets.map(|address| ("datasets", address, KEY_ADVICE));
    let inference = inference.map(|address| ("inference", address, KEY_ADVICE));
    let services = heads.into_iter().map(head).chain(datasets).chain(inference);
    let checks = services.map(|(service, address, advice)| {
        let key = key.clone();
        async move {
            let what = format!("{service} of {name} at {}", redact_address(&address));
            let asked = async {
                let transport = Transport::new(&address, key)?;
                match service {
                    "head" => ask_head(&what, transport).await,
                    "datasets" => ask_datasets(&what, transport).await,
                    _ => ask_inference(&what, transport).await,
                }
            };
            asked.await.unwrap_or_else(|error| {
                let is_refused = matches!(error.status(), Some(401 | 403));
                let next = if is_refused { advice } else { error.next_step() };
                Finding::wrong(what, format!("cannot {}", chain(&error)), next)
            })
        }
    });
    join_all(checks).await
}

/// What to do where a service refuses the key.
const KEY_ADVICE: &str = "make one with `triptych keys create NAME` where the service runs, and keep it here with \
     `triptych keys store`";

async fn ask_head(what: &str, transport: Transport) -> Result<Finding, ClientError> {
    // A token that cannot be sent fails where it is read by the commands that need it.
    let token = head_token().ok().flatten();
    let nodes = Functions::new(transport.with_token(token)).nodes().await?;
    let workers = nodes.iter().filter(|it| it.connected && it.role.as_deref() == Some("worker"));
    Ok(match workers.count() {
        0 => Finding::warning(
            what,
            "answers, and no worker is connected",
            "start one: triptych node --boot-nodes MULTIADDRESS",
        ),
        n_workers => Finding::ok(what, format!("answers, with {}", counted(n_workers, "worker"))),
    })
}

async fn ask_datasets(what: &str, transport: Transport) -> Result<Finding, ClientError> {
    let datasets = Datasets::new(transport);
    datasets.health().await?;
    datasets.list(&DatasetsQuery { limit: Some(1), ..DatasetsQuery::default() }).await?;
    Ok(Finding::ok(what, "answers, and takes the key"))
}

async fn ask_inference(what: &str, transport: Transport) -> Result<Finding, ClientError> {
    let inference = Inference::new(transport);
    inference.health().await?;
    let n_topics = inference.topics().await?.topics.len();
    Ok(Finding::ok(what, format!("answers, with {}", counted(n_topics, "topic"))))
}
