//! Datasets that are watched while others are charted: a value, a sparkline and a stream of each.
//!
//! Beside those that are pinned, the newest values of others can be looked at, without a stream.

use std::collections::BTreeMap;

use model::{dataset::DatasetId, timestamp::Timestamp};

use super::{LiveStream, RecentValues, State};
use crate::state::loadable::{Failure, Loadable};

/// Datasets pinned at once: each has a stream of its own, of which a service gives a key few.
pub(crate) const PINS_MAX: usize = 6;

/// Datasets shown on the Overview without being pinned: more than fit on most screens.
pub(crate) const OTHERS_MAX: usize = 12;

/// Values kept of a pinned dataset: two for each column of the widest sparkline.
pub(crate) const PIN_VALUES: usize = 240;

/// What a service answers of a dataset that is gone, or that it does not show.
const GONE: [u16; 2] = [404, 410];

/// A pinned dataset.
#[derive(Debug, Clone)]
pub(crate) struct Pin {
    pub(crate) dataset: DatasetId,
    /// The display name.
    pub(crate) name: String,
    pub(crate) live: LiveStream,
    /// Its newest values.
    pub(crate) spark: RecentValues,
    /// Whether its details are loaded: a pin of an earlier session waits for them.
    pub(crate) details: Loadable<()>,
    /// The metadata, which names the charted column.
    pub(crate) metadata: BTreeMap<String, String>,
}

impl Pin {
    /// A dataset of which nothing but the name is known yet.
    pub(crate) fn new(dataset: DatasetId, name: String) -> Self {
        let spark = RecentValues::new(PIN_VALUES, Timestamp::MIN);
        let (live, metadata) = (LiveStream::default(), BTreeMap::new());
        Self { dataset, name, live, spark, details: Loadable::Idle, metadata }
    }
}

/// A dataset that is pinned or looked at.
#[derive(Debug, Clone)]
pub(crate) struct WatchedDataset<'a> {
    pub(crate) dataset: DatasetId,
    /// The display name.
    pub(crate) name: &'a str,
    /// The column that they are of, if there are several.
    pub(crate) column: Option<String>,
    /// Its newest values, as soon as they are there.
    pub(crate) spark: Option<&'a RecentValues>,
    /// The unit of its values; may be empty.
    pub(crate) unit: &'a str,
    /// Itself, if it is pinned.
    pub(crate) pin: Option<&'a Pin>,
}

/// The unit of shares.
pub(crate) const PERCENT: &str = "%";

/// The unit of a dataset's values by its metadata, abbreviated where common.
pub(crate) fn unit(metadata: &BTreeMap<String, String>) -> &str {
    unit_in_short(metadata.get("unit").map_or("", String::as_str))
}

/// Abbreviates a common unit.
pub(crate) fn unit_in_short(unit: &str) -> &str {
    match unit {
        "percent" => PERCENT,
        "bytes per second" => "B/s",
        "bytes" => "B",
        "seconds" => "s",
        other => other,
    }
}

/// Whether a dataset is deleted or not visible.
pub(crate) fn is_gone(why: &Failure) -> bool {
    why.status.is_some_and(|status| GONE.contains(&status))
}

impl State {
    /// What is pinned, then others in the order of the list.
    pub(crate) fn watched(&self) -> Vec<WatchedDataset<'_>> {
        let others = self.list().iter().filter(|dataset| !self.is_pinned(dataset.id));
        let others = others.take(OTHERS_MAX).map(|dataset| WatchedDataset {
            dataset: dataset.id,
            name: &dataset.name,
            column: self.shown_column(dataset.id, &dataset.metadata),
            spark: self.sparklines.get(&dataset.id),
            unit: unit(&dataset.metadata),
            pin: None,
        });
        let pinned = self.pins.iter().map(|pin| WatchedDataset {
            dataset: pin.dataset,
            name: &pin.name,
            column: self.shown_column(pin.dataset, &pin.metadata),
            spark: Some(&pin.spark),
            unit: unit(&pin.metadata),
            pin: Some(pin),
        });
        pinned.chain(others).collect()
    }

    /// Whether `dataset` is pinned.
    pub(crate) fn is_pinned(&self, dataset: DatasetId) -> bool {
        self.pins.iter().any(|pin| pin.dataset == dataset)
    }
}
