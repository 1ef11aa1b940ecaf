//! Time and tasks: what starts together stops together, and waits are counted, not guessed.
//!
//! [`Group`](group::Group) owns tasks, [`Backoff`](backoff::Backoff) spaces retries,
//! [`Clock`](clock::Clock) tells the date, [`SteadyDate`](steady_date::SteadyDate) leaves out leaps
//! of it that do not hold, [`wait`] waits for a condition with a deadline, [`causes`]
//! tells why something failed, [`file`](mod@file) writes files durably, [`private`] keeps others out
//! of what is kept, [`lock`] lets one process at a time use it, [`database`] notices when its files
//! are replaced, [`space`] when there is no room for them, [`process`] reads what the system says
//! about processes. Absent on purpose: channels and actors, which belong to the rooms that need them.

pub mod backoff;
pub mod causes;
pub mod clock;
pub mod database;
pub mod file;
pub mod group;
pub mod lock;
pub mod private;
pub mod process;
pub mod space;
pub mod steady_date;
pub mod wait;
