//! Writing a range of the charted dataset to a file: which range, where to, and how far it is.

use strum::VariantArray;

use crate::{
    event::{ExportNews, Progress},
    state::{field::Field, navigation::Steps as _},
};

/// Which range is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Range {
    /// What the chart has.
    #[default]
    Loaded,
    /// A day up to the newest row.
    Day,
    /// A week up to the newest row.
    Week,
    All,
}

/// The form, and the running export.
#[derive(Debug, Clone, Default)]
pub(crate) struct Export {
    /// The path, as typed.
    pub(crate) path: Field,
    pub(crate) range: Range,
    /// The progress; none without a running export.
    pub(crate) progress: Option<Progress>,
}

impl Range {
    /// The label in the form.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Loaded => "the charted range",
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::All => "everything",
        }
    }
}

impl Export {
    /// Takes the range `n` after this one.
    pub(crate) fn choose(&mut self, n: isize) {
        self.range = self.range.shifted(n);
    }

    /// The format that the path's ending names: what every service has, where it names none.
    pub(crate) fn format(&self) -> &'static str {
        let path = self.path.value().to_lowercase();
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        let formats = ["csv", "json", "ndjson", "parquet", "arrow"];
        formats.into_iter().find(|format| *format == ending).unwrap_or("csv")
    }

    /// Takes the progress of the running export.
    pub(crate) fn take(&mut self, news: &ExportNews) {
        self.progress = match news {
            ExportNews::Written(progress) => Some(progress.clone()),
            ExportNews::Done { .. } | ExportNews::Failed(_) => None,
        };
    }
}
