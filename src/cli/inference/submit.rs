//! `triptych inference submit`: submits one payload for the open epoch.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use clap::Args;
use model::escape::escape_line;
use model::topic::TopicId;
use wire::inference::cases::Decimal;
use wire::inference::network::SubmissionBody;

use super::ServiceFlags;
use crate::cli::output::print;

/// Flags of `inference submit`.
#[derive(Debug, Args)]
pub(crate) struct SubmitCommand {
    /// Number of the topic
    topic: TopicId,
    /// A number, or one per label, as in up=0.5
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    values: Vec<String>,
    /// Expected loss of an inferer, by its address; may be repeated
    #[arg(long, value_name = "ADDRESS=LOSS")]
    forecast: Vec<String>,
    /// Submit as one of several workers of the key
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Height of the epoch [default: the open epoch]
    #[arg(long, value_name = "HEIGHT")]
    nonce: Option<u64>,
    /// Only check whether the submission would be accepted
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    service: ServiceFlags,
}

/// Submits the payload. Prints the epoch and the worker's address.
///
/// # Errors
/// If a value is invalid, or the request fails.
pub(crate) async fn run(command: SubmitCommand) -> anyhow::Result<()> {
    let topic = command.topic;
    let service = command.service.service().await?;
    let body = SubmissionBody {
        dry_run: command.dry_run,
        ..body(command.nonce, command.model, &command.values, &command.forecast)?
    };
    let accepted = service.submit(topic, &body).await.context("cannot submit")?;
    let (nonce, worker) = (accepted.nonce, escape_line(&accepted.worker));
    let what = if command.dry_run { "would be accepted: " } else { "" };
    print(&format!("{what}topic {topic}, nonce {nonce}, as {worker}"))
}

fn body(
    nonce: Option<u64>,
    model: Option<String>,
    values: &[String],
    forecast: &[String],
) -> anyhow::Result<SubmissionBody> {
    let decimal = |text: &str| Decimal(text.to_owned());
    let mut value = None;
    let mut labeled = BTreeMap::new();
    for text in values {
        match text.split_once('=') {
            Some((label, number)) => {
                if labeled.insert(label.to_owned(), decimal(number)).is_some() {
                    bail!("label `{label}` has more than one value");
                }
            }
            None if value.is_none() => value = Some(decimal(text)),
            None => bail!("several values without labels, expected LABEL=VALUE for each"),
        }
    }
    let mut expected = BTreeMap::new();
    for text in forecast {
        let (inferer, loss) = text
            .split_once('=')
            .with_context(|| format!("invalid --forecast {text}, expected ADDRESS=LOSS"))?;
        if expected.insert(inferer.to_owned(), decimal(loss)).is_some() {
            bail!("inferer {inferer} has more than one --forecast");
        }
    }
    Ok(SubmissionBody {
        nonce: nonce.map(|nonce| Decimal(nonce.to_string())),
        model,
        value,
        values: labeled,
        forecast: expected,
        dry_run: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&str], want: Option<&str>) {
        let values: Vec<String> = values.iter().map(|text| (*text).to_owned()).collect();
        let got = body(None, None, &values, &[]).ok();
        let got = got.map(|body| serde_json::to_string(&body).unwrap());
        assert_eq!(got.as_deref(), want, "{values:?}");
    }

    #[test]
    fn submission_is_one_number_or_one_number_per_label() {
        check(&["42.50"], Some(r#"{"value":"42.50"}"#));
        check(&["up=0.5", "down=0.5"], Some(r#"{"values":{"down":"0.5","up":"0.5"}}"#));
        check(&["1", "2"], None);
        check(&["up=1", "up=2"], None);
        assert!(body(None, None, &[], &["allo1a".to_owned()]).is_err());
        let twice = ["allo1a=1", "allo1a=2"].map(str::to_owned);
        assert!(body(None, None, &[], &twice).is_err());
    }
}
