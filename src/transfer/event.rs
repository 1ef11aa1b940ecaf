//! Interface through which a transfer reports messages and progress to the user.

use std::fmt::Debug;

/// Receiver of the messages and the progress of a transfer. No call may block.
pub trait Reporter: Debug + Send + Sync {
    /// Shows a message to the user.
    fn note(&self, text: &str);

    /// Begins to show the progress of work such as `importing a.csv`. `n_rows` rows were already stored
    /// by an earlier run. The total includes these rows, but the rate does not.
    fn begin(&self, work: String, n_rows: u64) -> Box<dyn Work>;
}

/// Work in progress. It has failed if it is dropped before [`Self::finish`] is called.
pub trait Work: Send {
    /// Updates the progress: the number of processed rows, and the share of the work that is done, from
    /// 0 to 1, if it is known.
    fn update(&mut self, n_rows: u64, share: Option<f64>);

    /// Finishes the work, which has processed `n_rows` rows in total. `did` describes the work in the
    /// past tense.
    fn finish(self: Box<Self>, n_rows: u64, did: &str);
}
