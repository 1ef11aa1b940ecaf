//! `triptych inference topics`: manages topics of a service.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use client::error::ClientError;
use client::inference::Inference;
use model::count::counted;
use model::topic::{Address, TopicId};
use serde::Serialize;
use wire::inference::network::{RelearnedBody, TopicBatch, TopicSettings};
use wire::inference::{TopicList, TopicSummary};

use super::{ServiceFlags, TopicFlags};
use crate::cli::output::{self, Column, print_body, print_json, table_of};
use crate::cli::parse::read_text;

/// Maximum size of a file with a topic's settings, in bytes. Real settings are much smaller.
const SETTINGS_BYTES_MAX: usize = 1024 * 1024;

/// Text of a horizon and its duration.
type Horizon = (String, Duration);

/// The subcommands of `inference topics`.
#[derive(Debug, Subcommand)]
pub(crate) enum TopicsCommand {
    /// List the topics: number, state with the nonce of the open epoch, height at which that epoch
    /// closes, epochs learned, actors, name
    List {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        service: ServiceFlags,
    },
    /// Create a topic from a JSON file, and print the topic
    Create {
        /// File with its settings; `-` for standard input
        file: PathBuf,
        /// Horizons that replace `horizon_seconds`, such as 5m,1h,1d. Creates a topic for each
        /// horizon, with the horizon in its name, or no topic if one of them is refused
        #[arg(long = "horizon", value_name = "DURATION", value_delimiter = ',', value_parser = horizon)]
        horizons: Vec<Horizon>,
        #[command(flatten)]
        service: ServiceFlags,
    },
    /// Print all settings of a topic, in the form of a file for `update`. With an operator's key they
    /// contain the environment variables of the topic's predictor, which can be secret
    Settings(TopicFlags),
    /// Replace all settings of a topic that your key created; a setting that the file lacks gets its
    /// default
    Update {
        #[command(flatten)]
        topic: TopicFlags,
        /// File with its settings; `-` for standard input
        file: PathBuf,
    },
    /// Add a worker to the whitelist of a topic that your key created; the topic's setting
    /// `enable_worker_whitelist` decides if others can submit
    Allow {
        #[command(flatten)]
        topic: TopicFlags,
        /// Address of the worker, as `inference submit` prints it
        #[arg(value_name = "ADDRESS")]
        worker: Address,
    },
    /// Remove a worker from the whitelist of a topic that your key created
    Disallow {
        #[command(flatten)]
        topic: TopicFlags,
        /// Address of the worker
        #[arg(value_name = "ADDRESS")]
        worker: Address,
    },
    /// Print the health of a topic, its problem, and the retention of its epochs
    Health(TopicFlags),
    /// Read the ground truth of past epochs again and repeat the learning, after rows were
    /// corrected or the topic's loss was changed. Epochs whose ground truth is not found keep the
    /// earlier one. Only for a topic that your key created
    Relearn {
        /// First epoch to learn from again
        #[arg(long, value_name = "HEIGHT")]
        from: u64,
        #[command(flatten)]
        topic: TopicFlags,
    },
    /// Delete a topic that your key created, with all its epochs, for good
    Delete(TopicFlags),
    /// Stop opening epochs of a topic
    Pause(TopicFlags),
    /// Resume opening epochs of a paused topic
    Resume(TopicFlags),
}

/// Runs a subcommand of `inference topics`.
///
/// # Errors
/// If a file is invalid, or the request fails.
pub(crate) async fn run(command: TopicsCommand) -> anyhow::Result<()> {
    match command {
        TopicsCommand::List { json, service } => {
            let list = service.service().await?.topics().await.context("cannot list topics")?;
            if json { list.topics.iter().try_for_each(print_body) } else { print_table(&list) }
        }
        TopicsCommand::Create { file, horizons, service } if horizons.is_empty() => {
            let settings = settings(&file)?;
            let created = service.service().await?.create_topic(&settings).await;
            print(&created.context("cannot create the topic")?)
        }
        TopicsCommand::Create { file, horizons, service } => {
            check_distinct(&horizons)?;
            let settings = settings(&file)?;
            let at = |(text, duration): &Horizon| TopicSettings {
                metadata: format!("{}, {text}", settings.metadata),
                horizon_seconds: duration.as_secs(),
                ..settings.clone()
            };
            let batch = TopicBatch { topics: horizons.iter().map(at).collect() };
            let created = service.service().await?.create_topics(&batch).await;
            print(&created.context("cannot create the topics")?)
        }
        TopicsCommand::Settings(topic) => {
            let read = async |it: &Inference, id| it.topic_settings(id).await;
            print(&request(topic, "read the settings of", read).await?)
        }
        TopicsCommand::Update { topic, file } => {
            let settings = settings(&file)?;
            let update = async |it: &Inference, id| it.update_topic(id, &settings).await;
            print(&request(topic, "update", update).await?)
        }
        TopicsCommand::Allow { topic, worker } => {
            let add = async |it: &Inference, id| it.add_to_whitelist(id, &worker).await;
            print(&request(topic, &format!("add {worker} to"), add).await?)
        }
        TopicsCommand::Disallow { topic, worker } => {
            let remove = async |it: &Inference, id| it.remove_from_whitelist(id, &worker).await;
            print(&request(topic, &format!("remove {worker} from"), remove).await?)
        }
        TopicsCommand::Health(topic) => {
            let read = async |it: &Inference, id| it.topic_health(id).await;
            print(&request(topic, "read the health of", read).await?)
        }
        TopicsCommand::Relearn { topic, from } => {
            let id = topic.topic;
            let relearn = async |it: &Inference, id| it.relearn(id, from).await;
            output::print(&relearned_text(id, &request(topic, "relearn", relearn).await?))
        }
        TopicsCommand::Delete(topic) => {
            let id = topic.topic;
            request(topic, "delete", async |it: &Inference, id| it.delete_topic(id).await).await?;
            output::print(&format!("deleted topic {id}"))
        }
        TopicsCommand::Pause(topic) => {
            let pause = async |it: &Inference, id| it.set_active(id, false).await;
            print(&request(topic, "pause", pause).await?)
        }
        TopicsCommand::Resume(topic) => {
            let resume = async |it: &Inference, id| it.set_active(id, true).await;
            print(&request(topic, "resume", resume).await?)
        }
    }
}

/// Sends a request about a topic. `what` completes an error: `cannot … topic 1`.
async fn request<T>(
    flags: TopicFlags,
    what: &str,
    send: impl AsyncFnOnce(&Inference, TopicId) -> Result<T, ClientError>,
) -> anyhow::Result<T> {
    let (topic, service) = flags.connect().await?;
    let sent = send(&service, topic).await;
    sent.with_context(|| format!("cannot {what} topic {topic}"))
}

fn relearned_text(topic: TopicId, relearned: &RelearnedBody) -> String {
    let RelearnedBody { n_epochs, n_changed, n_kept } = *relearned;
    let epochs = counted(n_epochs, "epoch");
    let kept = match n_kept {
        0 => String::new(),
        n => {
            let epochs = counted(n, "epoch");
            format!(
                "; {epochs} kept the earlier ground truth, since the dataset has no usable one now"
            )
        }
    };
    let changed = format!("{n_changed} with another ground truth");
    format!("learned from {epochs} of topic {topic} again, {changed}{kept}")
}

/// Parses a horizon. Returns it with its text.
fn horizon(text: &str) -> Result<Horizon, String> {
    let length = text.split_at_checked(text.len().saturating_sub(1)).and_then(|(number, unit)| {
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
        number.checked_mul(seconds).map(Duration::from_secs)
    });
    let length = length.ok_or("expected a duration such as 5m, 1h or 1d")?;
    Ok((text.to_owned(), length))
}

/// Checks that no two horizons are the same duration.
fn check_distinct(horizons: &[Horizon]) -> anyhow::Result<()> {
    let mut texts = BTreeMap::new();
    for (text, length) in horizons {
        if let Some(other) = texts.insert(length, text) {
            bail!("horizons {other} and {text} are the same");
        }
    }
    Ok(())
}

pub(super) fn settings(file: &Path) -> anyhow::Result<TopicSettings> {
    serde_json::from_str(&read_text(file, SETTINGS_BYTES_MAX)?).context("invalid topic settings")
}

fn print(value: &impl Serialize) -> anyhow::Result<()> {
    print_json(&serde_json::to_string_pretty(value)?)
}

fn print_table(list: &TopicList) -> anyhow::Result<()> {
    let columns: [Column<'_, TopicSummary>; 6] = [
        (">topic", &|topic| topic.topic_id.to_string()),
        ("state", &|topic| match (topic.is_paused, &topic.problem, topic.open_nonce) {
            (true, ..) => "paused".to_owned(),
            (false, Some(_), _) => "failing".to_owned(),
            (false, None, Some(nonce)) => format!("open {nonce}"),
            (false, None, None) => "between".to_owned(),
        }),
        (">closes at", &|topic| topic.close_height.map(|at| at.to_string()).unwrap_or_default()),
        (">learned", &|topic| topic.n_learned.to_string()),
        (">actors", &|topic| topic.actors.len().to_string()),
        ("name", &|topic| topic.name.clone()),
    ];
    output::print(&table_of(&list.topics, &columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn horizon_is_a_duration_with_a_unit() {
        let (text, length) = horizon("90m").unwrap();
        assert_eq!((text.as_str(), length), ("90m", Duration::from_mins(90)));
        assert_eq!(horizon("1d").unwrap().1, Duration::from_hours(24));
        assert_eq!(horizon("60d").unwrap().1, Duration::from_hours(60 * 24));
        for text in ["raw", "60", "0m", "", "-5m", "5 m", "5µ", "99999999999999999999d"] {
            assert!(horizon(text).is_err(), "{text}");
        }
    }

    #[test]
    fn equal_horizons_are_rejected() {
        let parsed = |texts: &[&str]| texts.iter().map(|text| horizon(text).unwrap()).collect();
        let error = |texts: &[&str]| {
            let parsed: Vec<Horizon> = parsed(texts);
            check_distinct(&parsed).map_err(|error| error.to_string())
        };
        assert_eq!(error(&["1m", "1h"]), Ok(()));
        assert_eq!(error(&["60s", "1m"]), Err("horizons 60s and 1m are the same".to_owned()));
    }
}
