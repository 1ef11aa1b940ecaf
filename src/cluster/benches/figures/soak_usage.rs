//! What the head holds in the course of a soak, and whether that grows.

use std::fmt;

use crate::{
    Outcome,
    process::{Process, Usage},
    rows::{Row, mib, note},
};

/// How much more memory the head may have in the last quarter than in the second: what the
/// allocator's own fragments come and go by.
const GROWTH_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// How many more files and tasks the head may have at rest: connections that peers are about to
/// close.
const SPARE: usize = 4;

/// What a head holds at one time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    usage: Usage,
    n_tasks: usize,
}

/// What it held from time to time.
pub(crate) struct Watched {
    at_rest: Held,
    under_load: Vec<Held>,
}

impl Watched {
    /// Looks for the first time, while the head is at rest.
    pub(crate) async fn begin(head: &mut Process) -> Outcome<Self> {
        Ok(Self { at_rest: held(head).await?, under_load: Vec::new() })
    }

    /// What it held at the beginning.
    pub(crate) fn at_rest(&self) -> Held {
        self.at_rest
    }

    /// Looks, while it has work.
    pub(crate) async fn look(&mut self, head: &mut Process) -> Outcome<()> {
        self.under_load.push(held(head).await?);
        Ok(())
    }

    /// Looks for the last time, while the head is at rest again, and returns the row that judges.
    pub(crate) async fn end(self, head: &mut Process) -> Outcome<Row> {
        let rested = held(head).await?;
        let n = self.under_load.len();
        let quarter = |from: usize| self.median(n * from / 4, n * (from + 1) / 4);
        let (early, late) = (quarter(1), quarter(3));
        note(&format!("head at rest before: {}", self.at_rest))?;
        note(&format!("head in the second quarter: {early}"))?;
        note(&format!("head in the last quarter: {late}"))?;
        note(&format!("head at rest after: {rested}"))?;
        let memory = |held: Held| held.usage.resident_bytes;
        let is_level = memory(late) <= memory(early) + GROWTH_BYTES_MAX
            && rested.usage.n_files <= self.at_rest.usage.n_files + SPARE
            && rested.n_tasks <= self.at_rest.n_tasks + SPARE;
        let value = format!(
            "RSS {:.1} -> {:.1} MiB, files {} -> {}, tasks {} -> {}",
            mib(memory(early)),
            mib(memory(late)),
            self.at_rest.usage.n_files,
            rested.usage.n_files,
            self.at_rest.n_tasks,
            rested.n_tasks
        );
        Ok(Row::new("the head meanwhile", value, "no growth", is_level))
    }

    /// The medians of what was held at the looks from `from` to `to`.
    fn median(&self, from: usize, to: usize) -> Held {
        let looks = self.under_load.get(from..to).unwrap_or_default();
        Held {
            usage: Usage {
                resident_bytes: middle(looks.iter().map(|held| held.usage.resident_bytes)),
                own_bytes: middle(looks.iter().map(|held| held.usage.own_bytes)),
                n_files: middle(looks.iter().map(|held| held.usage.n_files)),
                n_threads: middle(looks.iter().map(|held| held.usage.n_threads)),
            },
            n_tasks: middle(looks.iter().map(|held| held.n_tasks)),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { usage, n_tasks } = self;
        let resident = mib(usage.resident_bytes);
        write!(f, "RSS {resident:.1} MiB, {} files, {n_tasks} tasks", usage.n_files)
    }
}

async fn held(head: &mut Process) -> Outcome<Held> {
    // Another program's head has threads to be counted, at least.
    let n_tasks = head.n_tasks().await?.unwrap_or_default();
    Ok(Held { usage: head.usage()?, n_tasks })
}

fn middle<T: Ord + Default + Copy>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
