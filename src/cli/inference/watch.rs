//! `triptych inference show` and `watch`: print bundles as text or lines of JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use client::error::ClientError;
use client::inference::Inference;
use client::inference::bundles::{self, BundleEvent};
use client::stream::StreamEvent;
use model::escape::escape_line;
use model::topic::{BlockHeight, TopicId, decimal};
use serde_json::{Value, json};
use task::group::Group;
use tokio::sync::mpsc;
use tokio::time::sleep;
use wire::inference::network::{LatestBody, WeightsBody};
use wire::inference::{LabeledValue, LatestBundle, WorkerValues};

use super::TopicFlags;
use crate::cli::output::{self, StreamStatus, print, print_body, table, tell};
use crate::cli::stop;

/// Maximum number of bundles that wait to be printed. Once that many wait, no more are read from the
/// stream, and the service then skips to its latest bundle.
const EVENTS_CAPACITY: usize = 4;

/// Flags of `inference show`.
#[derive(Debug, Args)]
pub(crate) struct ShowCommand {
    /// Leave outliers out of the bundle
    #[arg(long)]
    outlier_resistant: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    topic: TopicFlags,
}

/// Flags of `inference watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchCommand {
    /// Print each bundle as a line of JSON
    #[arg(long)]
    json: bool,
    /// Polling interval for a service without a stream, in seconds
    #[arg(long, default_value_t = 15, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Exit after this many bundles
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    topic: TopicFlags,
}

/// Prints the latest bundle: its values, then each actor with name, one-out value and weight.
///
/// # Errors
/// If there is no such topic, or it has no bundle yet.
pub(super) async fn show(command: ShowCommand) -> anyhow::Result<()> {
    let ShowCommand { topic, outlier_resistant, json } = command;
    let (topic, service) = topic.connect().await?;
    let latest = if outlier_resistant {
        service.latest_outlier_resistant(topic).await
    } else {
        service.latest(topic).await
    };
    let latest = match latest {
        Err(why) if why.status() == Some(404) => bail!(
            "topic {topic} does not exist, or has no values yet: {why}\nhint: values appear when an epoch \
             with submissions closes; `triptych inference work {topic}` submits"
        ),
        latest => latest.with_context(|| format!("cannot read topic {topic}"))?,
    };
    // The weights are left out if the service does not serve them, or if its response is about a newer
    // epoch than `latest`.
    let nonce = latest.bundle.nonce;
    let details = service.latest_with_weights(topic).await.ok();
    let details = details.filter(|details| details.network_inferences.nonce == nonce);
    let details = if outlier_resistant { details.map(without_outliers) } else { details };
    if json {
        return print_body(&json_of(&latest, details)?);
    }
    print(&text_of(&latest, details.as_ref(), &names(&service, topic).await))
}

/// Removes the weights and intervals from `details` if the bundle without outliers has others.
fn without_outliers(details: LatestBody) -> LatestBody {
    if details.has_outliers {
        LatestBody { weights: WeightsBody::default(), confidence_intervals: Vec::new(), ..details }
    } else {
        details
    }
}

/// Returns the names of a topic's actors by their addresses, as far as the service knows them.
async fn names(service: &Inference, topic: TopicId) -> BTreeMap<String, String> {
    let Ok(list) = service.topics().await else { return BTreeMap::new() };
    let topics = list.topics.into_iter().filter(|summary| summary.topic_id == topic.get());
    let actors = topics.flat_map(|summary| summary.actors);
    actors.filter_map(|actor| Some((actor.worker, actor.name?))).collect()
}

/// Prints each new bundle of a topic.
///
/// # Errors
/// If there is no such topic, or the request fails.
pub(super) async fn watch(command: WatchCommand) -> anyhow::Result<()> {
    let WatchCommand { topic, json, every, limit } = command;
    let (topic, service) = topic.connect().await?;
    let mut printer = Printer { is_json: json, n_left: limit, last: None };
    let (sender, mut events) = mpsc::channel(EVENTS_CAPACITY);
    let group = Group::default();
    group.spawn("follow a topic", bundles::follow(service.clone(), topic, sender));
    let work = async {
        if print_events(&mut events, &mut printer).await? {
            return Ok(());
        }
        poll(&service, topic, Duration::from_secs(every), &mut printer).await
    };
    stop::run_until_stopped(&group, work).await
}

/// Prints the bundles of a stream until the limit is reached. Returns false if the service does not
/// serve a stream.
async fn print_events(
    events: &mut mpsc::Receiver<BundleEvent>,
    printer: &mut Printer,
) -> anyhow::Result<bool> {
    let mut status = StreamStatus::default();
    while let Some(event) = events.recv().await {
        match event {
            StreamEvent::Item(latest) if printer.print(&latest)? => return Ok(true),
            StreamEvent::Connected => status.connected(),
            StreamEvent::NotServed => return Ok(false),
            StreamEvent::Lost { why, .. } if matches!(why.status(), Some(401 | 403)) => {
                return Err(why).context("cannot follow the topic");
            }
            StreamEvent::Lost { why, .. } => status.lost(&why),
            StreamEvent::Item(_) | StreamEvent::Heartbeat | StreamEvent::Reset => {}
        }
    }
    Ok(true)
}

/// Polls the latest bundle every `every` and prints new bundles until the limit is reached.
async fn poll(
    service: &Inference,
    topic: TopicId,
    every: Duration,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    loop {
        let mut wait = every;
        match service.latest(topic).await {
            Ok(latest) => {
                if printer.print(&latest)? {
                    return Ok(());
                }
            }
            Err(why) if is_final(&why) => {
                return Err(why).with_context(|| format!("cannot read topic {topic}"));
            }
            Err(why) => {
                tell(&format!("request failed, retrying: {}", why.why()));
                wait = why.retry_after().map_or(every, |delay| delay.max(every));
            }
        }
        sleep(wait).await;
    }
}

/// Returns true if the same request would fail again, since the service rejects it.
pub(super) fn is_final(why: &ClientError) -> bool {
    matches!(why.status(), Some(400 | 401 | 403 | 404))
}

/// Prints bundles, up to a limit, without repeating the last bundle.
struct Printer {
    is_json: bool,
    n_left: Option<u64>,
    last: Option<BlockHeight>,
}

impl Printer {
    /// Prints `latest`, unless the last printed bundle has the same epoch. Returns true if the limit is
    /// reached.
    fn print(&mut self, latest: &LatestBundle) -> anyhow::Result<bool> {
        if self.n_left == Some(0) {
            return Ok(true);
        }
        if self.last.replace(latest.bundle.nonce) == Some(latest.bundle.nonce) {
            return Ok(false);
        }
        output::show(self.is_json, &json_of(latest, None)?, |_| line_of(latest))?;
        if let Some(n_left) = &mut self.n_left {
            *n_left -= 1;
        }
        Ok(self.n_left == Some(0))
    }
}

/// Returns `latest` as JSON, with the members of `details` added if they are known.
fn json_of(latest: &LatestBundle, details: Option<LatestBody>) -> anyhow::Result<Value> {
    let mut json = serde_json::to_value(latest)?;
    if let Some(LatestBody { weights, confidence_intervals, has_outliers, closed_at, .. }) = details
    {
        json["weights"] = json!(weights);
        json["confidence_intervals"] = json!(confidence_intervals);
        json["has_outliers"] = json!(has_outliers);
        json["closed_at"] = json!(closed_at);
    }
    Ok(json)
}

/// Formats a bundle as a line: `nonce 120  y 67502.8 (naive 67488.1)`.
fn line_of(latest: &LatestBundle) -> String {
    let values = latest.bundle.combined_value.iter().map(|value| {
        let naive = of_label(&latest.bundle.naive_value, &value.label_name);
        let naive = naive.map_or_else(String::new, |naive| format!(" (naive {naive})"));
        format!("{} {}{naive}", escape_line(&value.label_name), short(value.value))
    });
    let values: Vec<_> = values.collect();
    format!("nonce {}  {}", latest.bundle.nonce, values.join("  "))
}

fn text_of(
    latest: &LatestBundle,
    details: Option<&LatestBody>,
    names: &BTreeMap<String, String>,
) -> String {
    let bundle = &latest.bundle;
    let mut parts = vec![format!(
        "topic {}  {}  height {}",
        bundle.topic_id,
        line_of(latest),
        latest.block_height
    )];
    for interval in details.iter().flat_map(|details| &details.confidence_intervals) {
        let points = interval.percentiles.iter().zip(&interval.values);
        let points: Vec<_> =
            points.map(|(at, value)| format!("p{at} {}", short_text(value))).collect();
        parts.push(escape_line(&format!("{}: {}", interval.label_name, points.join("  "))).into());
    }
    let weights: BTreeMap<&str, &str> = details
        .iter()
        .flat_map(|details| details.weights.inferers.iter().chain(&details.weights.forecasters))
        .map(|(worker, share)| (worker.as_str(), share.as_str()))
        .collect();
    let mut rows = Vec::new();
    for (role, actors) in
        [("inferer", &bundle.inferer_values), ("forecaster", &bundle.forecaster_values)]
    {
        for actor in actors {
            rows.extend(actor.values.iter().map(|value| {
                let worker = actor.worker.to_string();
                let weight = weights.get(worker.as_str()).map(|share| short_text(share));
                let weight = weight.as_deref().unwrap_or("-");
                let without = without(latest, actor, &value.label_name);
                let without = without.unwrap_or_else(|| "-".to_owned());
                let own = short(value.value);
                let name = names.get(&worker).map_or("-", String::as_str);
                [worker.as_str(), name, role, &value.label_name, &own, &without, weight]
                    .map(str::to_owned)
                    .to_vec()
            }));
        }
    }
    let header = ["worker", "name", "role", "label", ">value", ">without", ">weight"];
    parts.push(table(&header, &rows));
    parts.join("\n")
}

/// Returns the one-out value of `actor`: the combined value for `label` that results without the actor.
fn without(latest: &LatestBundle, actor: &WorkerValues, label: &str) -> Option<String> {
    let bundle = &latest.bundle;
    let inferers = bundle.one_out_inferer_values.iter();
    let mut inferers = inferers.filter(|one| one.withheld_inferer == actor.worker);
    let forecasters = bundle.one_out_forecaster_values.iter();
    let mut forecasters = forecasters.filter(|one| one.withheld_forecaster == actor.worker);
    let values = inferers.next().map(|one| &one.combined_inference);
    let values = values.or_else(|| forecasters.next().map(|one| &one.combined_inference))?;
    of_label(values, label)
}

fn of_label(values: &[LabeledValue], label: &str) -> Option<String> {
    values.iter().find(|value| value.label_name == label).map(|value| short(value.value))
}

/// Formats a number with all its digits, as a power of ten if it is tiny or huge.
fn short(number: f64) -> String {
    let is_usual = number == 0.0 || (1e-6..1e15).contains(&number.abs());
    if is_usual { decimal(number) } else { format!("{number:e}") }
}

/// Formats a decimal text like [`short`]. Other texts are kept.
fn short_text(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), short)
}

#[cfg(test)]
mod tests {
    use wire::inference::network::IntervalBody;

    use super::*;

    fn latest() -> LatestBundle {
        let body = r#"{"network_inferences":{"topic_id":"1","nonce":"120",
            "combined_value":[{"label_id":1,"label_name":"y","value":"10.5"}],
            "inferer_values":[{"worker":"allo1aaa","values":
              [{"label_id":1,"label_name":"y","value":"9.25"}]}],
            "forecaster_values":[],
            "naive_value":[{"label_id":1,"label_name":"y","value":"10"}],
            "one_out_inferer_values":[{"withheld_inferer":"allo1aaa","combined_inference":
              [{"label_id":1,"label_name":"y","value":"11"}]}]},
            "inference_block_height":"131"}"#;
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn bundle_is_formatted_as_line_table_and_json() {
        let latest = latest();
        assert_eq!(line_of(&latest), "nonce 120  y 10.5 (naive 10)");
        let want = "topic 1  nonce 120  y 10.5 (naive 10)  height 131\n\
                    worker    name  role     label  value  without  weight\n\
                    allo1aaa  mine  inferer  y       9.25       11       -";
        let names = [("allo1aaa".to_owned(), "mine".to_owned())].into();
        assert_eq!(text_of(&latest, None, &names), want);
        let json = json_of(&latest, None).unwrap();
        assert_eq!(json["network_inferences"]["combined_value"][0]["value"], "10.5");
        assert_eq!(json["inference_block_height"], "131");
    }

    #[test]
    fn tiny_and_huge_numbers_are_powers_of_ten() {
        let numbers = [67_502.800_000_1, 0.0, -0.0, 1e-300, -6.4e39].map(short);
        assert_eq!(numbers, ["67502.8000001", "0", "0", "1e-300", "-6.4e39"]);
        assert_eq!(short_text(&decimal(5e-80)), "5e-80");
    }

    #[test]
    fn bundle_without_outliers_has_no_interval_of_the_bundle_with_outliers() {
        let body = |has_outliers: bool| {
            let details = LatestBody {
                network_inferences: latest().bundle,
                weights: WeightsBody {
                    inferers: [("allo1aaa".to_owned(), "0.5".to_owned())].into(),
                    ..WeightsBody::default()
                },
                confidence_intervals: vec![IntervalBody {
                    label_name: "y".to_owned(),
                    percentiles: vec!["50".to_owned()],
                    values: vec!["12.5".to_owned()],
                }],
                has_outliers,
                closed_at: String::new(),
            };
            text_of(&latest(), Some(&without_outliers(details)), &BTreeMap::new())
        };
        assert!(body(false).contains("p50 12.5") && body(false).ends_with("0.5"));
        assert!(!body(true).contains("p50") && body(true).ends_with('-'));
    }

    #[test]
    fn printed_bundle_is_not_printed_again() {
        let mut printer = Printer { is_json: false, n_left: Some(0), last: None };
        assert!(printer.print(&latest()).unwrap(), "the limit is reached");
        printer = Printer { is_json: false, n_left: None, last: Some(120) };
        assert!(!printer.print(&latest()).unwrap());
    }
}
