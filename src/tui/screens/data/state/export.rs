//! Writing a range of the charted dataset to a file: which range, where to, and how far it is.

use crate::{event::ExportNews, state::field::Field};

/// Which range is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

/// The form, and the export that is under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Export {
    /// Where to, as it is typed.
    pub(crate) path: Field,
    pub(crate) range: Range,
    /// How far it is; none while nothing is written.
    pub(crate) progress: Option<Progress>,
}

/// How far an export is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) n_rows: u64,
    /// Rows in all, where the service tells.
    pub(crate) n_all: Option<u64>,
    pub(crate) n_bytes: u64,
}

impl Range {
    /// All, the narrowest first: the order in which the form offers them.
    const ALL: [Self; 4] = [Self::Loaded, Self::Day, Self::Week, Self::All];

    /// What the form calls it.
    pub(crate) const fn name(self) -> &'static str {
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
    pub(crate) fn choose(&mut self, n: isize) {
        self.range = self.range.turned(n);
    }

    /// The format that the path's ending names: what every service has, where it names none.
    pub(crate) fn format(&self) -> &'static str {
        let path = self.path.value().to_lowercase();
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        let formats = ["csv", "json", "ndjson", "parquet", "arrow"];
        formats.into_iter().find(|format| *format == ending).unwrap_or("csv")
    }

    /// Takes what is told of the export that is under way.
    pub(crate) fn take(&mut self, news: &ExportNews) {
        self.progress = match news {
            ExportNews::Written(progress) => Some(progress.clone()),
            ExportNews::Done { .. } | ExportNews::Failed(_) => None,
        };
    }
}
