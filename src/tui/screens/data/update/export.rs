//! Starts and stops an export of the charted dataset.

use std::{path::PathBuf, time::Duration};

use model::timestamp::Timestamp;

use crate::{
    event::{DownloadQuery, Effect, Progress},
    screens::data::state::{State, export::Range},
};

/// The longest name of a dataset within the name of a file.
const NAME_MAX: usize = 48;

impl State {
    /// Opens the form, or ends the export that is under way.
    pub(crate) fn export(&mut self) {
        if self.export.progress.take().is_some() {
            return self.effects.push(Effect::DropExport);
        }
        let Some(dataset) = self.dataset() else { return };
        let is_plain = |letter: &char| letter.is_alphanumeric() || "-_.".contains(*letter);
        let name = dataset.name.chars().map(|letter| if is_plain(&letter) { letter } else { '_' });
        let name: String = name.take(NAME_MAX).collect();
        let path = format!("{}-{}.csv", name.trim_start_matches('.'), self.chart.resolution());
        self.export.path.set(&path);
        self.export.path.edit();
        self.pane = crate::screens::data::state::Pane::Chart;
    }

    /// Begins to write, as the form says.
    pub(crate) fn begin_export(&mut self) {
        let path = self.export.path.value().trim().to_owned();
        let Some(dataset) = self.selected.filter(|_| !path.is_empty()) else { return };
        self.export.path.confirm();
        let (start, end) = self.export_bounds();
        let query = DownloadQuery {
            dataset,
            resolution: self.chart.resolution(),
            start,
            end,
            output: self.export.format(),
        };
        self.export.progress = Some(Progress::default());
        self.effects.push(Effect::Export { query, path: PathBuf::from(path) });
    }

    fn export_bounds(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let candles = self.chart.candles();
        let (Some(first), Some(last)) = (candles.first(), candles.last()) else {
            return (None, None);
        };
        // A bucket starts before the end.
        let end = last.timestamp + self.chart.resolution().bucket().unwrap_or_default();
        let back = |hours| Some(end - Duration::from_hours(hours));
        match self.export.range {
            Range::Loaded => (Some(first.timestamp), Some(end)),
            Range::Day => (back(24), Some(end)),
            Range::Week => (back(7 * 24), Some(end)),
            Range::All => (None, None),
        }
    }
}
