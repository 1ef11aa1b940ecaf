//! Bodies with bundles. Values of pairs are written row by row while they are sent, since they can
//! be 16 MB of JSON.

use std::io;
use std::iter::{empty, once};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;
use model::topic::{Address, decimal};
use serde::Serialize;
use wire::inference::chain::{OneOutInfererForecasterValues, WorkerValue};
use wire::inference::{LabeledValue, OneOutInfererForecaster};

use super::error::{ApiError, Result};
use crate::math::pair_values::{FullBundle, PairValues};
use crate::math::regret::Losses;

/// JSON before the values of pairs in a body.
const PLACE: &str = "\"one_out_inferer_forecaster_values\":[";

/// Pieces of a body.
pub(super) type Pieces = Box<dyn Iterator<Item = io::Result<Bytes>> + Send>;

/// Values of pairs of a bundle.
#[derive(Debug, Clone)]
pub(super) struct PairBody {
    pairs: Arc<PairValues>,
    /// Ids and names of the labels.
    labels: Vec<(u32, String)>,
    /// True for one number per value, as up to v9.
    is_old: bool,
}

impl PairBody {
    /// Returns the pairs of `bundle`.
    pub(super) fn new(bundle: &FullBundle, is_old: bool) -> Self {
        let labels = bundle.combined_value.iter();
        let labels = labels.map(|value| (value.label_id, value.label_name.clone()));
        Self { pairs: Arc::clone(&bundle.without_inferer), labels: labels.collect(), is_old }
    }

    /// Returns losses of pairs, one number for each.
    pub(super) fn of_losses(losses: &Losses) -> Self {
        let pairs = Arc::new(losses.one_out_inferer_forecaster.clone());
        Self { pairs, labels: Vec::new(), is_old: true }
    }

    /// Returns true if the body is sent in pieces.
    pub(super) fn is_long(&self) -> bool {
        // Shorter bodies are sent in one piece.
        self.pairs.numbers().len() > 4096
    }

    /// Returns the row `row_idx` as JSON. `is_first` is true if no previous row has pairs.
    fn row(&self, row_idx: usize, is_first: bool) -> serde_json::Result<Vec<u8>> {
        let Some(forecaster) = self.pairs.rows().get(row_idx) else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        if self.is_old {
            let value = |(worker, list): (&Address, &[f64])| WorkerValue {
                worker: worker.to_string(),
                value: list.first().copied().map(decimal).unwrap_or_default(),
            };
            let row = OneOutInfererForecasterValues {
                forecaster: forecaster.to_string(),
                one_out_inferer_values: self.pairs.row(row_idx).map(value).collect(),
            };
            put(&mut bytes, is_first, &row)?;
            return Ok(bytes);
        }
        for (idx, (inferer, list)) in self.pairs.row(row_idx).enumerate() {
            let values = self.labels.iter().zip(list);
            let pair = OneOutInfererForecaster {
                forecaster: forecaster.clone(),
                withheld_inferer: inferer.clone(),
                combined_inference: values
                    .map(|((label_id, label_name), value)| LabeledValue {
                        label_id: *label_id,
                        label_name: label_name.clone(),
                        value: *value,
                    })
                    .collect(),
            };
            put(&mut bytes, is_first && idx == 0, &pair)?;
        }
        Ok(bytes)
    }
}

/// Writes an element of a list.
fn put(bytes: &mut Vec<u8>, is_first: bool, element: &impl Serialize) -> serde_json::Result<()> {
    if !is_first {
        bytes.push(b',');
    }
    serde_json::to_writer(bytes, element)
}

/// Serializes `head` in pieces and inserts each of `bodies` into its next list of pairs.
///
/// # Errors
/// [`ApiError`] if `head` cannot be serialized.
pub(super) fn pieces(
    head: &impl Serialize,
    bodies: impl IntoIterator<Item = PairBody>,
) -> Result<Pieces> {
    let mut text = serde_json::to_string(head)?;
    let mut pieces: Pieces = Box::new(empty());
    for pairs in bodies {
        let place = text.find(PLACE).map_or(text.len(), |idx| idx + PLACE.len());
        let after = text.split_off(place);
        let before = std::mem::replace(&mut text, after);
        let mut is_first = true;
        let rows = (0..pairs.pairs.rows().len()).map(move |row_idx| {
            let row = pairs.row(row_idx, is_first)?;
            is_first &= row.is_empty();
            Ok(Bytes::from(row))
        });
        pieces = Box::new(pieces.chain(once(Ok(before.into()))).chain(rows));
    }
    Ok(Box::new(pieces.chain(once(Ok(text.into())))))
}

/// Returns a response with `head` as JSON, into which `bodies` are inserted.
///
/// # Errors
/// See [`pieces`].
pub(super) fn response(head: &impl Serialize, bodies: Vec<PairBody>) -> Result<Response> {
    let is_long = bodies.iter().any(PairBody::is_long);
    let pieces = pieces(head, bodies)?;
    if is_long {
        return Ok(json(Body::from_stream(stream::iter(pieces))));
    }
    join(pieces).map(json)
}

/// Joins `pieces`.
///
/// # Errors
/// [`ApiError`] if a piece cannot be serialized.
pub(super) fn join(pieces: Pieces) -> Result<Bytes> {
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(&piece.map_err(|error| ApiError::broken(&error))?);
    }
    Ok(bytes.into())
}

/// Returns a response with a JSON body.
pub(super) fn json(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}
