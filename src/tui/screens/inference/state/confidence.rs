//! What a service of ours tells beside a bundle: how much each actor counted, and where the values
//! lie.

use std::collections::BTreeMap;

use model::topic::BlockHeight;
use wire::inference::network::{IntervalBody, LatestBody};

use super::past::number;

/// The weights and intervals of one bundle.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Confidence {
    /// Of which bundle.
    pub(crate) nonce: BlockHeight,
    /// Address to share, 0 to 1.
    pub(crate) weights: BTreeMap<String, f64>,
    /// Label to percentiles and the value at each, the lowest first.
    intervals: BTreeMap<String, Vec<(f64, f64)>>,
    /// Whether the outlier-resistant bundle is another.
    pub(crate) has_outliers: bool,
}

impl Confidence {
    /// Takes what of `body` is numbers.
    pub(crate) fn from_body(body: LatestBody) -> Self {
        let LatestBody { network_inferences, weights, confidence_intervals, has_outliers, .. } =
            body;
        let weights = weights.inferers.into_iter().chain(weights.forecasters);
        let weights = weights.filter_map(|(worker, share)| Some((worker, number(&share)?)));
        let interval = |body: IntervalBody| {
            let points = body.percentiles.iter().zip(&body.values);
            let points = points.filter_map(|(at, value)| Some((number(at)?, number(value)?)));
            (body.label_name, points.collect())
        };
        Self {
            nonce: network_inferences.nonce,
            weights: weights.collect(),
            intervals: confidence_intervals.into_iter().map(interval).collect(),
            has_outliers,
        }
    }

    /// The widest interval of `label`: how much of all is within, in percent, its ends.
    pub(crate) fn widest(&self, label: &str) -> Option<(f64, f64, f64)> {
        let points = self.intervals.get(label)?;
        let ((from, low), (to, high)) = (*points.first()?, *points.last()?);
        (points.len() > 1).then_some((to - from, low, high))
    }
}

#[cfg(test)]
mod tests {
    use wire::inference::{Bundle, network::WeightsBody};

    use super::*;

    #[test]
    fn non_numbers_are_left_out() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let weights = [("allo1a", "0.75"), ("allo1b", "NaN")];
        let weights = weights.map(|(name, share)| (name.to_owned(), share.to_owned()));
        let confidence = Confidence::from_body(LatestBody {
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
        });
        assert_eq!(confidence.weights, BTreeMap::from([("allo1a".to_owned(), 0.75)]));
        assert_eq!((confidence.nonce, confidence.widest("y")), (12, Some((95.0, 9.0, 12.0))));
        assert_eq!(confidence.widest("z"), None);
    }
}
