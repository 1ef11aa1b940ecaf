//! Reports of a transfer in progress.

use std::fmt::Debug;

/// Receiver of reports. Its calls do not block.
pub trait Reporter: Debug + Send + Sync {
    /// Shows a message to the user.
    fn note(&self, text: &str);

    /// Starts to show the progress of work such as `importing a.csv`. `n_rows` rows were stored by
    /// an earlier run. They count toward the total, but not toward the rate.
    fn begin(&self, work: String, n_rows: u64) -> Box<dyn Work>;
}

/// Work in progress. If it is dropped without a call of [`Self::finish`], the work has failed.
pub trait Work: Send {
    /// Updates the number of rows and the completed share of the work, from 0 to 1, if it is known.
    fn update(&mut self, n_rows: u64, share: Option<f64>);

    /// Finishes the work, which processed `n_rows` in total. `did` describes the work in the past
    /// tense.
    fn finish(self: Box<Self>, n_rows: u64, did: &str);
}
