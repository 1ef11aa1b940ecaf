//! Baselines: simple models that any other one should beat.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Model, Prediction};
use crate::{
    math::statistics::count,
    network::{
        addresses,
        rows::FlatRow,
        runs::Cause,
        topic::{Topic, Truth},
    },
};
use model::bundle::decimal;

/// How much each direction is believed in before any row speaks for one.
const PRIOR: f64 = 1.0;

/// How a baseline predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The newest value; the newest direction.
    Last,
    /// The mean of the values; each direction as often as it was.
    Mean,
    /// The newest value, and as much further as the last horizon went.
    Drift,
}

/// A baseline of one topic.
#[derive(Debug)]
struct Simple {
    kind: Kind,
    topic: Topic,
    name: &'static str,
}

/// The baselines of `topic`: `last`, `mean`, and `drift` where values are numbers.
pub fn baselines(topic: &Topic) -> Vec<Arc<dyn Model>> {
    let kinds = [(Kind::Last, "last"), (Kind::Mean, "mean"), (Kind::Drift, "drift")];
    let is_fit = |kind: Kind| kind != Kind::Drift || topic.truth == Truth::Value;
    let model =
        |(kind, name)| -> Arc<dyn Model> { Arc::new(Simple { kind, topic: topic.clone(), name }) };
    kinds.into_iter().filter(|(kind, _)| is_fit(*kind)).map(model).collect()
}

/// There are no rows to predict from.
#[derive(Debug, thiserror::Error)]
#[error("find a row to predict from")]
struct NoRows;

#[async_trait]
impl Model for Simple {
    fn name(&self) -> &str {
        self.name
    }

    async fn predict(&self, rows: &[FlatRow]) -> Result<Vec<Prediction>, Cause> {
        let series: Vec<(&FlatRow, f64)> = rows
            .iter()
            .filter_map(|row| Some((row, *row.values.get(&self.topic.source.column)?)))
            .collect();
        let values = match self.topic.truth {
            Truth::Value => self.value(&series).map(|value| {
                let label = self.topic.labels.first().cloned().unwrap_or_default();
                vec![(label, decimal(value))]
            }),
            Truth::Direction { .. } => self.directions(&series),
        };
        let worker = addresses::of_model(self.name);
        let name = format!("baseline: {}", self.name);
        Ok(vec![Prediction { worker, name, values: values.ok_or(NoRows)? }])
    }
}

impl Simple {
    fn value(&self, series: &[(&FlatRow, f64)]) -> Option<f64> {
        let (newest, last) = series.last()?;
        Some(match self.kind {
            Kind::Last => *last,
            Kind::Mean => series.iter().map(|(_, v)| v).sum::<f64>() / count(series.len()),
            Kind::Drift => {
                let since = newest.timestamp - self.topic.source.horizon;
                let (_, before) = series.iter().find(|(row, _)| row.timestamp >= since)?;
                last + (last - before)
            }
        })
    }

    /// How often the series went each way over a horizon; the last way alone for [`Kind::Last`].
    fn directions(&self, series: &[(&FlatRow, f64)]) -> Option<Vec<(String, String)>> {
        let labels = ["up", "down", "flat"];
        let mut beliefs = [PRIOR; 3];
        let horizon = self.topic.source.horizon;
        let moves = series.iter().filter_map(|(row, before)| {
            let due = row.timestamp + horizon;
            let after = series.iter().find(|(row, _)| row.timestamp >= due)?.1;
            Some(self.topic.truth_of(&labels, *before, after))
        });
        let moves: Vec<Vec<f64>> = moves.collect();
        let counted = if self.kind == Kind::Last {
            moves.get(moves.len().saturating_sub(1)..).unwrap_or_default()
        } else {
            &moves
        };
        series.last()?;
        for way in counted {
            for (belief, is_true) in beliefs.iter_mut().zip(way) {
                *belief += is_true;
            }
        }
        let total: f64 = beliefs.iter().sum();
        let texts = beliefs.map(|belief| decimal(belief / total));
        Some(labels.iter().map(|label| (*label).to_owned()).zip(texts).collect())
    }
}
