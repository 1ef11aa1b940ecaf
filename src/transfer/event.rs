//! What a transfer reports while it runs.

use std::fmt::Debug;

/// Receives what a transfer reports. Its calls do not block.
pub trait Reporter: Debug + Send + Sync {
    /// Takes a message for a person.
    fn note(&self, text: &str);

    /// Takes notice that work such as `importing a.csv` begins. `n_rows` were stored by an earlier
    /// run: they count, but not for the rate.
    fn begin(&self, work: String, n_rows: u64) -> Box<dyn Work>;
}

/// Work under way. Dropped, it ended without success.
pub trait Work: Send {
    /// Takes the number of rows so far, and how much of the whole that is, from 0 to 1, where that is
    /// known.
    fn update(&mut self, n_rows: u64, share: Option<f64>);

    /// Ends it: `did` was done with `n_rows` in all.
    fn finish(self: Box<Self>, n_rows: u64, did: &str);
}
