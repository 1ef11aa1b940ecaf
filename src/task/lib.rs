//! Time and tasks: what starts together stops together, and waits are counted, not guessed.
//!
//! [`Group`](group::Group) owns tasks, [`Backoff`](backoff::Backoff) spaces retries,
//! [`Clock`](clock::Clock) gives the date, [`SteadyDate`](steady_date::SteadyDate) ignores brief leaps
//! of it, [`wait`] waits for a condition with a deadline, [`cache`] is the bounded cache, [`causes`]
//! formats an error with its sources, [`file`](mod@file) writes files atomically, [`private`] creates
//! files and folders that only their owner can read, [`lock`] locks them against other processes,
//! [`process`] reports usage of processes, [`tally`] counts by holder, [`traces`] takes a
//! trace from one node or service to the next. Deliberately absent: channels and actors, which belong to
//! the rooms that need them.

pub mod backoff;
pub mod cache;
pub mod causes;
pub mod clock;
pub mod file;
pub mod group;
pub mod lock;
pub mod private;
pub mod process;
pub mod steady_date;
pub mod tally;
pub mod traces;
pub mod wait;
