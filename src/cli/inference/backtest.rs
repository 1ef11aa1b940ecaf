//! `triptych inference backtest`: evaluates models of a topic on the past rows of a dataset.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::inference::math::regret::ByActor;
use ::inference::network::addresses;
use ::inference::network::backtest::{
    ActorResult, Backtest, BacktestEvent, BacktestProgress, LearnedEpoch, Model, Prediction,
    Report, baselines,
};
use ::inference::network::topic::{Topic, TopicSource, demo_topics, settings};
use ::inference::network::upstream::{Cause, FlatRow, lines};
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use clap::Args;
use client::datasets::NamedRow;
use model::count::counted;
use model::escape::escape_line;
use model::timestamp::Timestamp;
use model::topic::{Address, TopicId};
use stack::program::Program;
use task::group::Group;
use transfer::find::{read_range, read_rows, read_rows_before};
use wire::inference::network::SubmissionBody;

use super::upstream::{DatasetRows, flat};
use super::work::submission;
use super::{N_ROWS, figure};
use crate::cli::datasets::connection::DatasetServiceFlags;
use crate::cli::datasets::progress::{bar, share};
use crate::cli::output::{self, Column, can_redraw, print_json, redraw, table_of};
use crate::cli::parse::{parse_start, parse_timestamp};

/// Maximum time that a command can take for one prediction.
const PREDICT_WITHIN: Duration = Duration::from_secs(30);

/// Flags of `inference backtest`.
#[derive(Debug, Args)]
pub(crate) struct BacktestCommand {
    /// File with the topic's settings, or demo:1 or demo:2
    topic: String,
    /// First time to predict from: RFC 3339, or a date
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    from: Timestamp,
    /// Last time of the rows: RFC 3339, or a date
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    to: Timestamp,
    /// Time between two epochs, in seconds of the dataset
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Maximum number of rows that the models get for each epoch, such as a training window: the
    /// latest rows before the epoch [default: `n_rows` of the topic's `predictor`, or 120]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rows: Option<u32>,
    /// Empty or new directory for a JSON file per epoch with its predictions, truth and losses
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Command that predicts; may be repeated
    #[arg(long = "model", value_name = "NAME=COMMAND")]
    models: Vec<String>,
    /// Leave out the baselines
    #[arg(long)]
    no_baselines: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// A model that runs a shell command for each prediction.
struct CommandModel {
    name: String,
    command: String,
    worker: Address,
    labels: Vec<String>,
    group: Group,
}

#[async_trait]
impl Model for CommandModel {
    fn name(&self) -> &str {
        &self.name
    }

    async fn predict(&self, rows: &[FlatRow]) -> Result<Vec<Prediction>, Cause> {
        let program = Program::start(&self.command, &BTreeMap::new(), &self.group, output::tell);
        let submission = async {
            let line = program?.finish(&lines(rows), PREDICT_WITHIN).await?;
            submission(&line, &self.labels)
        };
        let submission = submission.await.map_err(anyhow::Error::into_boxed_dyn_error)?;
        let values: Vec<_> = submission.iter().flat_map(SubmissionBody::labeled).collect();
        if values.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![Prediction { worker: self.worker.clone(), name: self.name.clone(), values }])
    }
}

/// Runs the backtest and prints its results.
///
/// # Errors
/// If the topic or a model is invalid, or the dataset service fails.
pub(crate) async fn run(command: BacktestCommand) -> anyhow::Result<()> {
    let BacktestCommand { from, to, .. } = command;
    if from >= to {
        bail!("--from {from} is not before --to {to}");
    }
    let topic = read_topic(&command.topic)?;
    topic.check().context("invalid topic")?;
    let group = Group::default();
    let models = models(&command, &topic, &group)?;
    let service = command.connection.connect().await?;
    let of_topic = topic.predictor.as_ref().and_then(|predictor| predictor.n_rows);
    let n_rows = command.rows.or(of_topic).unwrap_or(N_ROWS);
    if let Some(directory) = &command.save {
        let name = directory.display();
        fs::create_dir_all(directory).with_context(|| format!("cannot create {name}"))?;
        let mut entries = fs::read_dir(directory).with_context(|| format!("cannot read {name}"))?;
        if entries.next().is_some() {
            bail!(
                "directory {name} is not empty, so its files would mix with those of this backtest"
            );
        }
    }
    let n_rows = usize::try_from(n_rows).unwrap_or(usize::MAX);
    let TopicSource { dataset: name, dataset_id, column, .. } = &topic.source;
    let dataset = DatasetRows::new(service.clone()).id_of(name, *dataset_id).await?;
    let has_column = |row: &NamedRow| row.values.contains_key(column);
    let mut rows = read_rows_before(&service, dataset, name, from, n_rows, has_column).await?;
    rows.extend(read_rows(&service, dataset, name, from..=to).await?);
    let rows = flat(rows);
    if rows.last().is_none_or(|row| row.timestamp < from) {
        let missing = format!("dataset {name} has no rows from {from} to {to}");
        match read_range(&service, dataset).await? {
            Some((first, last)) => bail!("{missing}\nhint: it has rows from {first} to {last}"),
            None => bail!("{missing}"),
        }
    }
    let every = Duration::from_secs(command.every);
    let backtest = Backtest { topic, models, every, n_rows };
    let is_shown = can_redraw();
    let observe = |event: BacktestEvent<'_>| {
        match (event, &command.save) {
            (BacktestEvent::Progress(step), _) => show(is_shown, step),
            (BacktestEvent::Learned(epoch), Some(directory)) => save_epoch(directory, &epoch)?,
            (BacktestEvent::Learned(_), None) => {}
        }
        Ok(())
    };
    let report = backtest.run(&rows, from, observe).await;
    group.shutdown().await;
    if is_shown {
        redraw("");
    }
    let report = report.context("backtest failed")?;
    print(&report, command.json)?;
    if report.n_learned > 0 {
        return Ok(());
    }
    bail!("{}", no_result(&report))
}

/// Returns the models to test, including the baselines.
///
/// # Errors
/// If a model is invalid, two models have the same name, or there are no models.
fn models(
    command: &BacktestCommand,
    topic: &Topic,
    group: &Group,
) -> anyhow::Result<Vec<Arc<dyn Model>>> {
    let mut models: Vec<Arc<dyn Model>> = Vec::new();
    for text in &command.models {
        let model = command_model(text, &topic.labels, group)?;
        if models.iter().any(|other| other.name() == model.name) {
            bail!("model {} is given more than once; use another name", model.name);
        }
        models.push(Arc::new(model));
    }
    if !command.no_baselines {
        models.extend(baselines(topic));
    }
    if models.is_empty() {
        bail!("no model to test\nhint: pass --model NAME=COMMAND, or omit --no-baselines");
    }
    Ok(models)
}

/// Returns the reason why the network learned from no epoch.
fn no_result(report: &Report) -> String {
    match &report.truth_error {
        _ if report.n_closed == 0 => "no model predicted anything".to_owned(),
        Some(error) => format!("no epoch has a ground truth: {error}"),
        None => {
            "no ground truth is in the range, which has to extend beyond the horizon".to_owned()
        }
    }
}

/// Writes the file of an epoch. Its name is the nonce, in digits that sort in the order of the epochs.
fn save_epoch(directory: &Path, epoch: &LearnedEpoch<'_>) -> anyhow::Result<()> {
    let LearnedEpoch { seen: (first, last), n_seen, bundle, truth, losses, names } = epoch;
    let by_worker = |losses: &ByActor<f64>| -> BTreeMap<String, f64> {
        losses.iter().map(|(worker, loss)| (worker.to_string(), *loss)).collect()
    };
    let names: BTreeMap<String, &String> =
        names.iter().map(|(worker, name)| (worker.to_string(), name)).collect();
    let content = serde_json::json!({
        "rows": {"first": first.to_string(), "last": last.to_string(), "count": n_seen},
        "network_inferences": bundle,
        "names": names,
        "truth": truth,
        "losses": {
            "combined": losses.combined,
            "naive": losses.naive,
            "inferers": by_worker(&losses.inferer),
            "forecasters": by_worker(&losses.forecaster),
        },
    });
    let path = directory.join(format!("{:012}.json", bundle.nonce));
    fs::write(&path, serde_json::to_vec_pretty(&content)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

fn read_topic(text: &str) -> anyhow::Result<Topic> {
    if let Some(number) = text.strip_prefix("demo:") {
        let number: TopicId = number.parse().context("invalid demo topic")?;
        let found = demo_topics().into_iter().find(|topic| topic.id == number);
        return found
            .with_context(|| format!("unknown demo topic {text}, expected demo:1 or demo:2"));
    }
    let settings = super::topics::settings(Path::new(text))?;
    settings::topic(TopicId::FIRST, None, settings).context("invalid topic settings")
}

fn command_model(text: &str, labels: &[String], group: &Group) -> anyhow::Result<CommandModel> {
    match text.split_once('=') {
        Some((name, command)) if !name.is_empty() && !command.trim().is_empty() => {
            Ok(CommandModel {
                name: name.to_owned(),
                command: command.to_owned(),
                worker: addresses::of_model(&format!("command:{name}")),
                labels: labels.to_vec(),
                group: group.clone(),
            })
        }
        _ => bail!("invalid --model {text}, expected NAME=COMMAND"),
    }
}

/// Draws the progress if `is_shown`, at most once for each percent.
fn show(is_shown: bool, step: BacktestProgress) {
    let BacktestProgress { n_done, n_epochs } = step;
    let percent = n_done * 100 / n_epochs.max(1);
    if !is_shown || (n_done < n_epochs && percent == (n_done - 1) * 100 / n_epochs.max(1)) {
        return;
    }
    let bar = bar(share(n_done, n_epochs));
    redraw(&format!("{bar}  {percent:>3} %  {n_done} of {}", counted(n_epochs, "epoch")));
}

fn print(report: &Report, is_json: bool) -> anyhow::Result<()> {
    if is_json {
        let actor = |actor: &ActorResult| {
            serde_json::json!({
                "name": actor.name,
                "worker": actor.worker.to_string(),
                "role": actor.role.name(),
                "rank": actor.rank,
                "n_epochs": actor.n_epochs,
                "mean_loss": actor.mean_loss,
                "weight": actor.share,
                "regret": actor.regret,
                "score": actor.score,
            })
        };
        let value = serde_json::json!({
            "n_closed": report.n_closed,
            "n_learned": report.n_learned,
            "n_empty": report.n_empty,
            "n_common_epochs": report.n_common_epochs,
            "combined_loss": report.combined_loss,
            "naive_loss": report.naive_loss,
            "interval_coverage": report.coverage,
            "failures": report.failures.iter().map(|(name, (n, _))| (name, n)).collect::<BTreeMap<_, _>>(),
            "actors": report.actors.iter().map(actor).collect::<Vec<_>>(),
        });
        return print_json(&serde_json::to_string_pretty(&value)?);
    }
    let mut lines = sums(report);
    lines.extend(actors(report));
    output::print(&lines.join("\n"))
}

fn sums(report: &Report) -> Vec<String> {
    let Report { n_closed, n_learned, n_empty, .. } = report;
    let closed = counted(*n_closed, "epoch");
    let mut lines = vec![format!("{closed} closed, {n_learned} learned from, {n_empty} empty")];
    if let Some((combined_loss, naive_loss)) = report.combined_loss.zip(report.naive_loss) {
        let [combined, naive] = [combined_loss, naive_loss].map(figure);
        lines.push(format!("mean loss: combined {combined}, naive {naive}"));
    }
    if report.n_common_epochs > 0 {
        let common = counted(report.n_common_epochs, "common epoch");
        lines.push(format!("ranked by mean loss over {common}"));
    }
    let coverage = report.coverage.map(|coverage| coverage * 100.0);
    lines.extend(coverage.map(|percent| format!("within the 95 % interval: {percent:.1} %")));
    lines.extend(report.failures.iter().map(|(name, (n, why))| {
        format!("{name} predicted nothing {}: {}", counted(*n, "time"), escape_line(why))
    }));
    lines
}

fn actors(report: &Report) -> Option<String> {
    let number = |number: Option<f64>, text: fn(f64) -> String| number.map_or("-".to_owned(), text);
    let columns: [Column<'_, ActorResult>; 8] = [
        (">rank", &|actor| actor.rank.map_or_else(|| "unranked".to_owned(), |it| it.to_string())),
        ("actor", &|actor| actor.name.clone()),
        ("role", &|actor| actor.role.name().to_owned()),
        (">epochs", &|actor| actor.n_epochs.to_string()),
        (">mean loss", &|actor| figure(actor.mean_loss)),
        (">weight", &|actor| number(actor.share, |share| format!("{:.2} %", share * 100.0))),
        (">regret", &|actor| number(actor.regret, figure)),
        (">score", &|actor| number(actor.score, figure)),
    ];
    (!report.actors.is_empty()).then(|| table_of(&report.actors, &columns))
}

#[cfg(test)]
mod tests {
    use model::topic::SINGLE_LABEL;

    use super::*;

    #[track_caller]
    fn check(n_closed: u64, truth_error: Option<&str>, want: &str) {
        let truth_error = truth_error.map(str::to_owned);
        let report = Report { n_closed, truth_error, ..Report::default() };
        assert_eq!(no_result(&report), want);
    }

    #[tokio::test]
    async fn commands_predict_what_a_worker_would_submit() {
        let group = Group::default();
        let labels = [SINGLE_LABEL.to_owned()];
        let predict = async |line: &str| {
            let model = command_model(&format!("a=echo loading; echo '{line}'"), &labels, &group);
            let predicted = model.unwrap().predict(&[]).await.ok()?;
            Some(predicted.into_iter().flat_map(|one| one.values).collect::<Vec<_>>())
        };
        for line in ["{}", r#"{"forecast":{"allo1a":-1}}"#] {
            assert_eq!(predict(line).await, Some(vec![]), "{line}");
        }
        let value = (SINGLE_LABEL.to_owned(), "42.50".to_owned());
        assert_eq!(predict(r#"{"value":42.50,"forecast":{"allo1a":1}}"#).await, Some(vec![value]));
        for line in ["[]", r#"{"values":{}}"#, r#"{"forecast":5}"#, r#"{"value":1,"model":"b"}"#] {
            assert_eq!(predict(line).await, None, "{line}");
        }
        group.shutdown().await;
    }

    #[test]
    fn backtest_without_a_result_fails_for_its_reason() {
        check(0, None, "no model predicted anything");
        check(
            5,
            Some("log_return is undefined"),
            "no epoch has a ground truth: log_return is undefined",
        );
        let short = "no ground truth is in the range, which has to extend beyond the horizon";
        check(5, None, short);
    }
}
