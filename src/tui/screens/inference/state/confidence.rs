//! What a service of ours tells beside a bundle: how much each actor counted, and where the values
//! lie.

use model::topic::Address;
use wire::inference::network::{LatestBody, WeightsBody};

use super::past::number;

/// The share of an actor, 0 to 1.
pub(crate) fn weight(body: &LatestBody, worker: &Address) -> Option<f64> {
    let WeightsBody { inferers, forecasters } = &body.weights;
    let share = forecasters.get(worker.as_str()).or_else(|| inferers.get(worker.as_str()));
    number(share?)
}

/// The widest interval of `label`: how much of all is within, in percent, its ends.
pub(crate) fn widest_interval(body: &LatestBody, label: &str) -> Option<(f64, f64, f64)> {
    let interval = body.confidence_intervals.iter().find(|one| one.label_name == label)?;
    let ends = |texts: &[String]| match texts {
        [first, .., last] => Some((number(first)?, number(last)?)),
        _ => None,
    };
    let ((from, to), (low, high)) = (ends(&interval.percentiles)?, ends(&interval.values)?);
    Some((to - from, low, high))
}

#[cfg(test)]
mod tests {
    use wire::inference::{Bundle, network::IntervalBody};

    use super::*;

    #[test]
    fn non_numbers_are_left_out() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let weights = [("allo1a", "0.75"), ("allo1b", "NaN")];
        let weights = weights.map(|(name, share)| (name.to_owned(), share.to_owned()));
        let body = LatestBody {
            network_inferences: Bundle {
                topic_id: model::topic::TopicId::FIRST,
                nonce: 12,
                combined_value: Vec::new(),
                inferer_values: Vec::new(),
                forecaster_values: Vec::new(),
                naive_value: Vec::new(),
                one_out_inferer_values: Vec::new(),
                one_out_forecaster_values: Vec::new(),
                one_in_forecaster_values: Vec::new(),
                one_out_inferer_forecaster_values: Vec::new(),
            },
            weights: WeightsBody { inferers: weights.into(), ..WeightsBody::default() },
            confidence_intervals: vec![IntervalBody {
                label_name: "y".to_owned(),
                percentiles: texts(&["2.5", "50", "97.5"]),
                values: texts(&["9", "10", "12"]),
            }],
            has_outliers: true,
            closed_at: String::new(),
        };
        let weights = ["allo1a", "allo1b"].map(|worker| weight(&body, &worker.parse().unwrap()));
        assert_eq!(weights, [Some(0.75), None]);
        assert_eq!(widest_interval(&body, "y"), Some((95.0, 9.0, 12.0)));
        assert_eq!(widest_interval(&body, "z"), None);
    }
}
