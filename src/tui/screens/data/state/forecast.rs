//! Forecasts of a topic of the inference service, drawn over the chart.
//!
//! A forecast is a combined value of the network at the time for which it was predicted. Values of
//! the charted column and log returns can be drawn. All other targets are not prices.

use std::time::Duration;

use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use model::topic::TopicId;
use wire::inference::network::TopicSettings;

use crate::screens::inference::state::Epoch;

/// Topic whose forecasts are drawn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Forecast {
    /// True if the user has switched the forecasts off.
    pub(crate) is_off: bool,
    /// A topic that predicts the charted column. `None` if there is no such topic.
    pub(crate) topic: Option<TopicId>,
    /// Target of the topic. `None` until loaded.
    pub(crate) target: Option<Target>,
    /// True if the latest epochs have been requested and need not be requested yet.
    pub(crate) is_recent: bool,
}

/// Target of a topic and the time from an epoch's opening to the predicted row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) horizon: Duration,
    pub(crate) kind: Kind,
}

/// Quantity that a topic predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The value of the column.
    Value,
    /// The logarithm of the value divided by the latest value at the opening of the epoch.
    LogReturn,
    /// A quantity with this name, from which no value of the column follows.
    Other(&'static str),
}

/// A combined value of the network, as a value of the charted column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Predicted {
    /// Time for which the value was predicted.
    pub(crate) time: Timestamp,
    pub(crate) value: f64,
    /// Ground truth. `None` until it is known.
    pub(crate) truth: Option<f64>,
}

impl Target {
    /// Returns the target of a topic with these settings.
    pub(crate) fn of_settings(settings: &TopicSettings) -> Self {
        let is_multi = settings.output_arity.as_deref() == Some("multi");
        let kind = match settings.target.as_deref() {
            _ if settings.direction_threshold.is_some() => Kind::Other("a direction"),
            _ if is_multi => Kind::Other("several labels"),
            None | Some("value") => Kind::Value,
            Some("log_return") => Kind::LogReturn,
            Some("volatility") => Kind::Other("a volatility"),
            Some(_) => Kind::Other("an unknown target"),
        };
        Self { horizon: Duration::from_secs(settings.horizon_seconds), kind }
    }

    /// Returns the reason why no forecasts can be drawn at `resolution`, or `None` if they can.
    pub(crate) fn obstacle(self, resolution: Resolution) -> Option<String> {
        match self.kind {
            Kind::Value => None,
            Kind::LogReturn if resolution == Resolution::Raw => None,
            // The close of a bucket is not the latest value at the opening of an epoch.
            Kind::LogReturn => Some("predicts a log return, drawn only over raw rows".to_owned()),
            Kind::Other(what) => Some(format!("predicts {what}, which is not a value to draw")),
        }
    }

    /// Returns the forecast of an epoch over `candles`. Returns `None` if the epoch has no combined
    /// value, or if the value that a log return refers to is not loaded.
    pub(crate) fn forecast(self, epoch: &Epoch, candles: &[Bucket]) -> Option<Predicted> {
        let factor = |number: f64| match self.kind {
            Kind::Value => Some(number),
            Kind::LogReturn => {
                let n_known = candles.partition_point(|it| it.timestamp <= epoch.time);
                let base = candles.get(n_known.checked_sub(1)?)?.close;
                Some(base * number.exp()).filter(|_| base > 0.0)
            }
            Kind::Other(_) => None,
        };
        let time = epoch.time + self.horizon;
        let value = factor(*epoch.combined.values().next()?)?;
        let truth = epoch.truth.values().next().and_then(|truth| factor(*truth));
        Some(Predicted { time, value, truth })
    }
}

/// Returns the mean error of `forecasts` with a known ground truth, in percent of the ground truth or,
/// if `is_share` is true, in percentage points. Returns `None` if no error is known.
pub(crate) fn mean_error(forecasts: &[Predicted], is_share: bool) -> Option<f64> {
    let error = |it: &Predicted| {
        let truth = it.truth?;
        let error = (it.value - truth).abs();
        Some(if is_share { error } else { error / truth.abs() * 100.0 })
    };
    let errors: Vec<f64> =
        forecasts.iter().filter_map(error).filter(|error| error.is_finite()).collect();
    let n = f64::from(u32::try_from(errors.len()).ok().filter(|n| *n > 0)?);
    Some(errors.iter().sum::<f64>() / n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::flat_candle;

    fn target(json: &str) -> Target {
        Target::of_settings(&serde_json::from_str(json).unwrap())
    }

    fn candle(second: i64, close: f64) -> Bucket {
        flat_candle(Timestamp::from_seconds(second), close)
    }

    fn epoch(second: i64, combined: f64, truth: Option<f64>) -> Epoch {
        let labeled = |value| ("y".to_owned(), value);
        Epoch {
            time: Timestamp::from_seconds(second),
            combined: [labeled(combined)].into(),
            truth: truth.map(labeled).into_iter().collect(),
            ..Epoch::default()
        }
    }

    #[test]
    fn value_is_drawn_a_horizon_after_the_opening_of_its_epoch() {
        let target = target(r#"{"horizon_seconds": 60}"#);
        let got = target.forecast(&epoch(100, 5.0, Some(4.0)), &[]).unwrap();
        let want = Predicted { time: Timestamp::from_seconds(160), value: 5.0, truth: Some(4.0) };
        assert_eq!(got, want);
        assert_eq!(target.obstacle(Resolution::Hour), None);
    }

    #[test]
    fn log_return_is_applied_to_the_latest_value_at_the_opening() {
        let target = target(r#"{"horizon_seconds": 60, "target": "log_return"}"#);
        let candles = [candle(90, 100.0), candle(100, 200.0), candle(101, 300.0)];
        let doubled = epoch(100, std::f64::consts::LN_2, Some(0.0));
        let got = target.forecast(&doubled, &candles).unwrap();
        assert!((got.value - 400.0).abs() < 1e-9, "{got:?}");
        assert_eq!(got.truth, Some(200.0));
        assert_eq!(target.forecast(&epoch(80, 0.1, None), &candles), None, "not loaded");
        assert_eq!(target.obstacle(Resolution::Raw), None);
        assert!(target.obstacle(Resolution::FiveMinutes).unwrap().contains("raw rows"));
    }

    #[test]
    fn direction_and_volatility_are_not_drawn() {
        for (settings, what) in [
            (r#"{"direction_threshold": "0.001", "output_arity": "multi"}"#, "a direction"),
            (r#"{"target": "volatility"}"#, "a volatility"),
            (r#"{"output_arity": "multi"}"#, "several labels"),
        ] {
            let target = target(settings);
            assert!(target.obstacle(Resolution::Raw).unwrap().contains(what), "{settings}");
            assert_eq!(target.forecast(&epoch(100, 0.1, None), &[candle(90, 1.0)]), None);
        }
    }

    #[test]
    fn mean_error_is_over_the_epochs_with_a_known_truth() {
        let predicted = |value, truth| Predicted { time: Timestamp::MIN, value, truth };
        let all =
            [predicted(101.0, Some(100.0)), predicted(7.0, None), predicted(97.0, Some(100.0))];
        assert_eq!(mean_error(&all, false), Some(2.0));
        assert_eq!(mean_error(&all[1..2], false), None);
        let zero = [predicted(1.0, Some(0.0)), predicted(3.0, Some(2.0))];
        assert_eq!(mean_error(&zero, false), Some(50.0), "no percentage of zero");
        assert_eq!(mean_error(&zero, true), Some(1.0));
    }
}
