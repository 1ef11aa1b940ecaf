//! Resources of the head during a soak. They must not grow.

use std::fmt;

use test_bench::process::Usage;
use test_bench::{Row, mib, note};

use crate::Outcome;
use crate::process::Process;

/// Maximum growth of the head's memory from the second to the last quarter. It allows for
/// fragmentation in the allocator.
const GROWTH_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Maximum growth of the numbers of files and tasks of an idle head. It allows for connections that
/// peers are about to close.
const SPARE: usize = 4;

/// Resources that a head uses at one time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadUsage {
    usage: Usage,
    n_tasks: usize,
}

/// Resources over time.
pub(crate) struct SoakUsage {
    at_rest: HeadUsage,
    under_load: Vec<HeadUsage>,
}

impl SoakUsage {
    /// Measures the idle head at the beginning.
    pub(crate) async fn begin(head: &mut Process) -> Outcome<Self> {
        Ok(Self { at_rest: held(head).await?, under_load: Vec::new() })
    }

    /// Returns the first measurement.
    pub(crate) fn at_rest(&self) -> HeadUsage {
        self.at_rest
    }

    /// Measures the head under load.
    pub(crate) async fn look(&mut self, head: &mut Process) -> Outcome<()> {
        self.under_load.push(held(head).await?);
        Ok(())
    }

    /// Measures the idle head at the end and returns the row.
    pub(crate) async fn end(self, head: &mut Process) -> Outcome<Row> {
        let rested = held(head).await?;
        let n = self.under_load.len();
        let quarter = |from: usize| self.median(n * from / 4, n * (from + 1) / 4);
        let (early, late) = (quarter(1), quarter(3));
        note(&format!("idle head before: {}", self.at_rest))?;
        note(&format!("head in the second quarter: {early}"))?;
        note(&format!("head in the last quarter: {late}"))?;
        note(&format!("idle head after: {rested}"))?;
        let memory = |held: HeadUsage| held.usage.resident_bytes;
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
        Ok(Row::new("head during the soak", value, "no growth", is_level))
    }

    /// Returns the medians of the measurements from `from` to `to`.
    fn median(&self, from: usize, to: usize) -> HeadUsage {
        let looks = self.under_load.get(from..to).unwrap_or_default();
        HeadUsage {
            usage: Usage {
                resident_bytes: middle(looks.iter().map(|held| held.usage.resident_bytes)),
                anonymous_bytes: middle(looks.iter().map(|held| held.usage.anonymous_bytes)),
                n_files: middle(looks.iter().map(|held| held.usage.n_files)),
                n_threads: middle(looks.iter().map(|held| held.usage.n_threads)),
            },
            n_tasks: middle(looks.iter().map(|held| held.n_tasks)),
        }
    }
}

impl fmt::Display for HeadUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { usage, n_tasks } = self;
        let resident = mib(usage.resident_bytes);
        write!(f, "RSS {resident:.1} MiB, {} files, {n_tasks} tasks", usage.n_files)
    }
}

async fn held(head: &mut Process) -> Outcome<HeadUsage> {
    // The tasks of another program's head cannot be counted, only its threads.
    let n_tasks = head.n_tasks().await?.unwrap_or_default();
    Ok(HeadUsage { usage: head.usage()?, n_tasks })
}

fn middle<T: Ord + Default + Copy>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
