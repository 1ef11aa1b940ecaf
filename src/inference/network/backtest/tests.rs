//! Backtests of series for which the best model is known.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use super::*;
use crate::tests::test_topics;

/// Returns `n` rows, one per minute, with the results of `value` in `column`.
fn rows(column: &str, n: u32, value: impl Fn(f64) -> f64) -> Vec<FlatRow> {
    let row = |idx: u32| FlatRow {
        timestamp: Timestamp::from_seconds(i64::from(idx) * 60),
        values: BTreeMap::from([(column.to_owned(), value(f64::from(idx)))]),
    };
    (0..n).map(row).collect()
}

fn backtest(topic: Topic) -> Backtest {
    let models = baselines(&topic);
    Backtest { topic, models, every: Duration::from_mins(1), n_rows: 60 }
}

fn load() -> Topic {
    test_topics().remove(0)
}

#[tokio::test]
async fn drift_model_is_ranked_first_on_linear_data() {
    let rows = rows("load_percent", 300, |minute| 10.0 + minute);
    let steps = Mutex::new(Vec::new());
    let report = backtest(load())
        .run(&rows, Timestamp::from_seconds(600), |event| {
            if let BacktestEvent::Progress(step) = event {
                steps.lock().push(step);
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(report.n_closed, 290);
    // The ground truth of the last epoch is after the last row.
    assert_eq!(report.n_learned, 289);
    assert_eq!(steps.lock().last(), Some(&BacktestProgress { n_done: 290, n_epochs: 290 }));
    let inferers: Vec<&str> =
        report.actors.iter().filter(|a| a.role == Role::Inferer).map(|a| a.name.as_str()).collect();
    assert_eq!(inferers, ["baseline: drift", "baseline: last", "baseline: mean"]);
    assert!(report.combined_loss.unwrap() < report.actors[2].mean_loss);
    let share: f64 = report.actors.iter().filter_map(|actor| actor.share).sum();
    assert!((share - 1.0).abs() < 1e-9);
    assert!(report.actors[0].share > report.actors[2].share);
    assert!(report.failures.is_empty() && report.coverage.is_some());
}

/// Model with exact predictions in its first `n_epochs` epochs, and without predictions afterwards.
struct Lucky {
    n_epochs: Mutex<u32>,
}

#[async_trait]
impl Model for Lucky {
    fn name(&self) -> &'static str {
        "lucky"
    }

    async fn predict(&self, seen: &[FlatRow]) -> Result<Vec<Prediction>, Cause> {
        let mut n_left = self.n_epochs.lock();
        let Some(n) = n_left.checked_sub(1) else { return Ok(Vec::new()) };
        *n_left = n;
        let next = seen.last().and_then(|row| row.values.get("load_percent")).unwrap() + 1.0;
        let values = vec![("y".to_owned(), next.to_string())];
        let worker = "allo1lucky".parse().unwrap();
        Ok(vec![Prediction { worker, name: "lucky".to_owned(), values }])
    }
}

#[tokio::test]
async fn actor_with_few_epochs_is_not_ranked() {
    let mut trial = backtest(load());
    trial.models.push(Arc::new(Lucky { n_epochs: Mutex::new(3) }));
    let rows = rows("load_percent", 60, |minute| 10.0 + minute);
    let report = trial.run(&rows, Timestamp::from_seconds(600), |_| Ok(())).await.unwrap();
    let ranks: Vec<_> = report
        .actors
        .iter()
        .filter(|actor| actor.role == Role::Inferer)
        .map(|actor| (actor.name.as_str(), actor.rank))
        .collect();
    let want = [
        ("baseline: drift", Some(1)),
        ("baseline: last", Some(2)),
        ("baseline: mean", Some(3)),
        ("lucky", None),
    ];
    assert_eq!(ranks, want);
    assert!(report.n_common_epochs > 3, "of ranked actors");
    let lucky = report.actors.iter().find(|actor| actor.name == "lucky").unwrap();
    assert_eq!(lucky.share, None, "it is not in the last combined value");
}

#[tokio::test]
async fn backtest_of_log_returns_has_baselines_of_zero_and_of_past_returns() {
    let mut topic = Topic { truth: Truth::LogReturn, ..load() };
    topic.judging.loss.floor = 1e-12;
    // Constant growth, which the latest return predicts exactly.
    let rows = rows("load_percent", 100, |minute| 10.0 * (minute / 100.0).exp());
    let report =
        backtest(topic).run(&rows, Timestamp::from_seconds(600), |_| Ok(())).await.unwrap();
    let mut inferers = report.actors.iter().filter(|actor| actor.role == Role::Inferer);
    let names: BTreeSet<&str> = inferers.clone().map(|actor| actor.name.as_str()).collect();
    assert_eq!(names, ["baseline: last", "baseline: mean", "baseline: zero"].into());
    let last = inferers.next_back().unwrap();
    // The return of a minute is 0.01 in all epochs, so the squared error of 0 is 1e-4.
    assert_eq!(last.name, "baseline: zero");
    assert!((last.mean_plain_loss - 1e-4).abs() < 1e-9, "{last:?}");
}

#[tokio::test]
async fn backtest_of_volatility_has_baselines_of_past_volatilities() {
    let mut topic = Topic { truth: Truth::Volatility, ..load() };
    topic.source.horizon = Duration::from_mins(4);
    topic.judging.loss.floor = 1e-12;
    // The return alternates between 0.01 and −0.01. Over four minutes: √(4 / 3) · 0.01 · √4.
    let rows = rows("load_percent", 100, |minute| 10.0 * (0.01 * (minute % 2.0)).exp());
    let report =
        backtest(topic).run(&rows, Timestamp::from_seconds(600), |_| Ok(())).await.unwrap();
    let inferers = report.actors.iter().filter(|actor| actor.role == Role::Inferer);
    let names: Vec<&str> = inferers.clone().map(|actor| actor.name.as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for actor in inferers {
        assert!(actor.mean_plain_loss < 1e-11, "{actor:?}");
    }
    assert!(report.n_learned > 80 && report.failures.is_empty(), "{report:?}");
}

#[tokio::test]
async fn backtest_evaluates_topics_of_directions() {
    let market = test_topics().remove(1);
    let rows = rows("close", 300, |minute| 1000.0 + minute);
    let report =
        backtest(market).run(&rows, Timestamp::from_seconds(3600), |_| Ok(())).await.unwrap();
    assert!(report.n_learned > 200, "{report:?}");
    assert_eq!(report.coverage, None);
    assert!(report.actors.iter().any(|actor| actor.name == "baseline: mean"));
}

/// Model that is always certain of the direction `up`.
struct Certain;

#[async_trait]
impl Model for Certain {
    fn name(&self) -> &'static str {
        "certain"
    }

    async fn predict(&self, _: &[FlatRow]) -> Result<Vec<Prediction>, Cause> {
        let values = vec![("up".to_owned(), "1".to_owned())];
        let worker = addresses::of_model("certain");
        Ok(vec![Prediction { worker, name: "certain".to_owned(), values }])
    }
}

#[tokio::test]
async fn backtest_counts_a_true_label_that_no_model_predicts() {
    let rows = rows("close", 60, |_| 1000.0);
    let models: Vec<Arc<dyn Model>> = vec![Arc::new(Certain)];
    let alone = Backtest { models, ..backtest(test_topics().remove(1)) };
    let report = alone.run(&rows, Timestamp::default(), |_| Ok(())).await.unwrap();
    // The value is always flat. The Brier score of the certain model is 2.
    assert!(report.n_learned > 10, "{report:?}");
    assert!((report.combined_loss.unwrap() - 2.0_f64.log10()).abs() < 1e-9, "{report:?}");
}

#[tokio::test]
async fn backtest_of_log_returns_of_negative_values_reports_that_they_are_undefined() {
    let topic = Topic { truth: Truth::LogReturn, ..load() };
    let rows = rows("load_percent", 20, |minute| -1.0 - minute);
    let report = backtest(topic).run(&rows, Timestamp::default(), |_| Ok(())).await.unwrap();
    let reason = "log_return of column load_percent is undefined: a value is not above 0, or rows \
                  are missing";
    assert_eq!(report.truth_error.as_deref(), Some(reason));
    assert_eq!(report.failures["mean"].1, reason);
    assert_eq!(report.n_learned, 0);
}

#[tokio::test]
async fn network_does_not_learn_from_rows_it_has_not_seen() {
    let mut topic = load();
    topic.source.horizon = Duration::from_mins(10);
    // The first row after the gap is the ground truth of several epochs.
    let mut rows = rows("load_percent", 60, |minute| minute);
    rows.retain(|row| !(21..28).contains(&(row.timestamp.seconds() / 60)));
    let (mut minute, mut learned) = (0, Vec::new());
    let observe = |event: BacktestEvent<'_>| {
        match event {
            BacktestEvent::Progress(step) => minute = step.n_done,
            BacktestEvent::Learned(epoch) => learned.push((minute, epoch.truth[0].value)),
        }
        Ok(())
    };
    backtest(topic).run(&rows, Timestamp::default(), observe).await.unwrap();
    assert!(learned.len() > 40);
    let is_early = |(at, truth): &&(u64, f64)| *truth > f64::from(u32::try_from(*at).unwrap());
    let early: Vec<_> = learned.iter().filter(is_early).collect();
    assert!(early.is_empty(), "minute of the epoch, and minute of the ground truth: {early:?}");
}

/// Model that fails in every other epoch.
struct Moody(Mutex<bool>);

#[async_trait]
impl Model for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    async fn predict(&self, _: &[FlatRow]) -> Result<Vec<Prediction>, Cause> {
        let mut is_well = self.0.lock();
        *is_well = !*is_well;
        if *is_well { Ok(Vec::new()) } else { Err("not today".into()) }
    }
}

#[tokio::test]
async fn backtest_counts_failures_of_models_and_skips_empty_epochs() {
    let models: Vec<Arc<dyn Model>> = vec![Arc::new(Moody(Mutex::new(false)))];
    let rows = rows("load_percent", 10, |_| 1.0);
    let alone = Backtest { models, ..backtest(load()) };
    let report = alone.run(&rows, Timestamp::default(), |_| Ok(())).await.unwrap();
    assert_eq!((report.n_closed, report.n_empty), (0, 10));
    assert_eq!(report.failures["moody"], (5, "not today".to_owned()));
}

#[tokio::test]
async fn backtest_without_rows_is_rejected() {
    let rows = rows("another", 10, |_| 1.0);
    let error = backtest(load()).run(&rows, Timestamp::default(), |_| Ok(())).await.unwrap_err();
    assert!(matches!(error, BacktestError::NoRows { .. }));
    let still = Backtest { every: Duration::ZERO, ..backtest(load()) };
    let rows = self::rows("load_percent", 10, |_| 1.0);
    let error = still.run(&rows, Timestamp::default(), |_| Ok(())).await.unwrap_err();
    assert!(matches!(error, BacktestError::Standstill));
}
