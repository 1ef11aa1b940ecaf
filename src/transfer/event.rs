//! What a transfer reports while it runs.

use std::{fmt, sync::Arc};

/// Something that happens during a transfer.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A message for a person.
    Note(&'a str),
    /// Work such as `importing a.csv` began.
    Began {
        /// The work; it names the same work in later events.
        work: &'a str,
        /// Rows that an earlier run stored: they count, but not for the rate.
        n_rows: u64,
    },
    /// Work goes on.
    Progress {
        /// The work, as it was called when it began.
        work: &'a str,
        /// How far it is.
        done: Done,
    },
    /// Work ended, well or not.
    Ended {
        /// The work, as it was called when it began.
        work: &'a str,
        /// The rows in all, and what was done with them, where it succeeded.
        total: Option<(u64, &'a str)>,
    },
}

/// What is done so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Done {
    /// The number of rows so far.
    pub n_rows: u64,
    /// How much of the whole, from 0 to 1; `None` where that is not known.
    pub share: Option<f64>,
}

/// Receives the events of a transfer. Cheap to clone.
#[derive(Clone)]
pub struct Reporter(Arc<dyn Fn(Event<'_>) + Send + Sync>);

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reporter")
    }
}

impl Reporter {
    /// Calls `report` for each event, which must not block.
    pub fn new(report: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    pub(crate) fn note(&self, text: &str) {
        (self.0)(Event::Note(text));
    }

    /// Reports that `work` begins, and returns what reports its progress.
    pub(crate) fn begin(&self, work: impl Into<String>, n_rows: u64) -> Work<'_> {
        let work = work.into();
        (self.0)(Event::Began { work: &work, n_rows });
        Work { reporter: self, name: work, total: None }
    }
}

/// Work that is reported as ended when this is dropped.
pub(crate) struct Work<'a> {
    reporter: &'a Reporter,
    name: String,
    total: Option<(u64, String)>,
}

impl Work<'_> {
    pub(crate) fn update(&self, n_rows: u64, share: Option<f64>) {
        (self.reporter.0)(Event::Progress { work: &self.name, done: Done { n_rows, share } });
    }

    /// Reports that `did` was done with `n_rows`.
    pub(crate) fn finish(mut self, n_rows: u64, did: String) {
        self.total = Some((n_rows, did));
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let total = self.total.as_ref().map(|(n_rows, did)| (*n_rows, did.as_str()));
        (self.reporter.0)(Event::Ended { work: &self.name, total });
    }
}
