//! Response bodies with bundles. The values of pairs can be 16 MB of JSON, so they are serialized row
//! by row while the body is sent.

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

/// JSON text in a body after which the values of pairs are inserted.
const PLACE: &str = "\"one_out_inferer_forecaster_values\":[";

/// Pieces of a body in order.
pub(super) type Pieces = Box<dyn Iterator<Item = io::Result<Bytes>> + Send>;

/// Values of pairs to be inserted into a body.
#[derive(Debug, Clone)]
pub(super) struct PairBody {
    pairs: Arc<PairValues>,
    /// Ids and names of the labels.
    labels: Vec<(u32, String)>,
    /// True if each value is a single number, as in versions up to v9, instead of a list of labeled
    /// values.
    is_old: bool,
}

impl PairBody {
    /// Returns the values of pairs in `bundle`.
    pub(super) fn new(bundle: &FullBundle, is_old: bool) -> Self {
        let labels = bundle.combined_value.iter();
        let labels = labels.map(|value| (value.label_id, value.label_name.clone()));
        Self { pairs: Arc::clone(&bundle.without_inferer), labels: labels.collect(), is_old }
    }

    /// Returns the losses of pairs in `losses`, one number for each pair.
    pub(super) fn of_losses(losses: &Losses) -> Self {
        let pairs = Arc::new(losses.one_out_inferer_forecaster.clone());
        Self { pairs, labels: Vec::new(), is_old: true }
    }

    /// Returns true if there are so many values that the body must be sent in pieces.
    pub(super) fn is_long(&self) -> bool {
        // 4096 values are about 400 kB of JSON, which can be built in memory.
        self.pairs.numbers().len() > 4096
    }

    /// Returns the elements of the row `row_idx` as JSON, with a comma before each except the first of
    /// the list. `is_first` is true if all previous rows are empty.
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

/// Writes `element`, after a comma unless it is the first element of its list.
fn put(bytes: &mut Vec<u8>, is_first: bool, element: &impl Serialize) -> serde_json::Result<()> {
    if !is_first {
        bytes.push(b',');
    }
    serde_json::to_writer(bytes, element)
}

/// Serializes `head`, which has an empty list of pairs for each of `bodies`, and inserts `bodies` into
/// these lists in order.
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

/// Returns a response with the body of [`pieces`]. A long body is serialized while it is sent.
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

/// Joins `pieces` to a body.
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
