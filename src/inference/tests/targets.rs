//! Topics whose ground truth is a log return or a volatility.

use super::*;
use crate::network::topic::truth::Truth;

/// Runs the first epoch of a topic whose ground truths are defined by `truth`. Returns the ground truth,
/// and the reason of the topic's problem if it has one. The input of the epoch is `input`, or the
/// dataset's latest value if `input` is `None`.
async fn first_truth(truth: Truth, input: Option<f64>) -> (Vec<f64>, Option<String>) {
    let mut topic = test_topics().remove(0);
    topic.truth = truth;
    let mut stage = Stage::with_topic(topic, 1).await;
    if let Some(value) = input {
        let (id, nonce) = (stage.id(), stage.inference.chain().height());
        assert!(stage.inference.open_epoch(id, nonce).await.unwrap());
        let input = Input { at: stage.clock.now(), value };
        stage.inference.put_input(id, nonce, input).await.unwrap();
    }
    stage.runner.tick().await;
    stage.pass(60).await;
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    let values = history[0].truth.iter().map(|value| value.value).collect();
    let problem = stage.inference.problems(stage.id()).pop();
    (values, problem.map(|problem| problem.reason))
}

/// Returns the value of the dataset `seconds` after the latest row of the first epoch.
fn after(seconds: u32) -> f64 {
    50.0 + f64::from(seconds) / 1000.0
}

async fn check(truth: Truth, want: f64) {
    let (got, problem) = first_truth(truth, None).await;
    assert!(got.len() == 1 && (got[0] - want).abs() < 1e-12, "{got:?} is not {want}");
    assert_eq!(problem, None);
}

#[tokio::test]
async fn log_return_is_measured_over_the_horizon() {
    // ln (50.06 / 50)
    check(Truth::LogReturn, (after(60) / after(0)).ln()).await;
}

#[tokio::test]
async fn volatility_is_computed_from_the_rows_within_the_horizon() {
    let returns: Vec<f64> = (0..60).map(|idx| (after(idx + 1) / after(idx)).ln()).collect();
    let mean = returns.iter().sum::<f64>() / 60.0;
    let variance = returns.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 59.0;
    check(Truth::Volatility, (variance * 60.0).sqrt()).await;
}

#[tokio::test]
async fn undefined_log_return_is_a_problem_of_the_topic() {
    let (values, problem) = first_truth(Truth::LogReturn, Some(0.0)).await;
    assert_eq!(values, [0.0; 0]);
    let want = "reading rows of dataset machine_cpu failed: log_return of column load_percent is \
                undefined: a value is not above 0, or rows are missing";
    assert_eq!(problem.as_deref(), Some(want));
}
