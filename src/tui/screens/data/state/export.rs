//! Writing a range of the charted dataset to a file: which range, where to, and how far it is.

use std::{path::PathBuf, time::Duration};

use model::timestamp::Timestamp;

use super::State;
use crate::{
    event::{DownloadQuery, Effect, ExportNews},
    state::field::Field,
};

/// The longest name of a dataset within the name of a file.
const NAME_MAX: usize = 48;

/// Which range is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Range {
    /// What the chart has.
    #[default]
    Loaded,
    /// A day up to the newest row.
    Day,
    /// A week up to the newest row.
    Week,
    /// Everything.
    All,
}

/// The form, and the export that is under way.
#[derive(Debug, Clone, Default)]
pub struct Export {
    /// Where to, as it is typed.
    pub path: Field,
    /// Which range.
    pub range: Range,
    /// How far it is; none while nothing is written.
    pub progress: Option<Progress>,
}

/// How far an export is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows written.
    pub n_rows: u64,
    /// Rows in all, where the service tells.
    pub n_all: Option<u64>,
    /// Bytes written.
    pub n_bytes: u64,
}

impl Range {
    /// All, the narrowest first: the order in which the form offers them.
    const ALL: [Self; 4] = [Self::Loaded, Self::Day, Self::Week, Self::All];

    /// What the form calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loaded => "what is charted",
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::All => "everything",
        }
    }

    fn turned(self, n: isize) -> Self {
        let here = Self::ALL.iter().position(|range| *range == self).unwrap_or(0);
        let next = here.saturating_add_signed(n).min(Self::ALL.len() - 1);
        Self::ALL.get(next).copied().unwrap_or_default()
    }
}

impl Export {
    /// Takes the range `n` after this one.
    pub(super) fn choose(&mut self, n: isize) {
        self.range = self.range.turned(n);
    }

    /// The format that the path's ending names: what every service has, where it names none.
    #[must_use]
    pub fn format(&self) -> &'static str {
        let path = self.path.value().to_lowercase();
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        let formats = ["csv", "json", "ndjson", "parquet", "arrow"];
        formats.into_iter().find(|format| *format == ending).unwrap_or("csv")
    }

    /// Takes what is told of the export that is under way.
    pub(super) fn take(&mut self, news: &ExportNews) {
        self.progress = match news {
            ExportNews::Written(progress) => Some(progress.clone()),
            ExportNews::Done { .. } | ExportNews::Failed(_) => None,
        };
    }
}

impl State {
    /// Opens the form, or ends the export that is under way.
    pub(super) fn export(&mut self) -> Vec<Effect> {
        if self.export.progress.take().is_some() {
            return vec![Effect::DropExport];
        }
        let Some(dataset) = self.dataset() else { return Vec::new() };
        let is_plain = |letter: &char| letter.is_alphanumeric() || "-_.".contains(*letter);
        let name = dataset.name.chars().map(|letter| if is_plain(&letter) { letter } else { '_' });
        let name: String = name.take(NAME_MAX).collect();
        let path = format!("{}-{}.csv", name.trim_start_matches('.'), self.chart.resolution());
        self.export.path.set(&path);
        self.export.path.edit();
        self.pane = super::Pane::Chart;
        Vec::new()
    }

    /// Begins to write, as the form says.
    pub(super) fn begin_export(&mut self) -> Vec<Effect> {
        let path = self.export.path.value().trim().to_owned();
        let Some(dataset) = self.selected.filter(|_| !path.is_empty()) else { return Vec::new() };
        self.export.path.keep();
        let (start, end) = self.export_bounds();
        let query = DownloadQuery {
            dataset,
            resolution: self.chart.resolution(),
            start,
            end,
            output: self.export.format(),
        };
        self.export.progress = Some(Progress::default());
        vec![Effect::Export { query, path: PathBuf::from(path) }]
    }

    fn export_bounds(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let candles = self.chart.candles();
        let (Some(first), Some(last)) = (candles.first(), candles.last()) else {
            return (None, None);
        };
        // A bucket starts before the end.
        let end = last.time + self.chart.resolution().bucket().unwrap_or_default();
        let back = |hours| Some(end - Duration::from_hours(hours));
        match self.export.range {
            Range::Loaded => (Some(first.time), Some(end)),
            Range::Day => (back(24), Some(end)),
            Range::Week => (back(7 * 24), Some(end)),
            Range::All => (None, None),
        }
    }
}
