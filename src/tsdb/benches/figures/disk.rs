//! What the machine under the store can do, taken in the same run: a figure is judged beside it.

use std::{
    fs::{self, File},
    io::{Seek as _, SeekFrom, Write as _},
    path::Path,
    time::Duration,
};

use tokio::time::Instant;

use test_bench::Outcome;

/// How often the disk is waited for.
const SYNCS: usize = 200;

/// What a commit of 1000 rows writes, about.
const COMMIT_BYTES: usize = 72 << 10;

/// Ticks of the processor's clock in a second, as Linux shows them to programs.
const TICKS: f64 = 100.0;

/// The median of how many seconds the disk takes to keep what a commit writes, in a file that has
/// its length already.
pub(crate) fn sync(folder: &Path) -> Outcome<f64> {
    let path = folder.join("sync");
    let bytes = vec![0xA5; COMMIT_BYTES];
    let mut file = File::create(&path)?;
    let mut taken = Vec::with_capacity(SYNCS);
    for sync in 0..=SYNCS {
        file.seek(SeekFrom::Start(0))?;
        let start = Instant::now();
        file.write_all(&bytes)?;
        file.sync_data()?;
        // The first one makes the file longer.
        if sync > 0 {
            taken.push(start.elapsed());
        }
    }
    fs::remove_file(&path)?;
    taken.sort_unstable();
    Ok(taken.get(SYNCS / 2).map_or(0.0, Duration::as_secs_f64))
}

/// The seconds that the writer of the store has had a processor; none where nobody tells.
pub(crate) fn writer_seconds() -> Option<f64> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let mut ticks: Option<u32> = None;
    for thread in threads.flatten() {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        let (name, fields) = stat.rsplit_once(')')?;
        if name.ends_with("datasets-writer") {
            // After the name and the state: in user mode the 12th, in the kernel the 13th.
            let of_kind = fields.split_whitespace().skip(11).take(2);
            let sum: u32 = of_kind.filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
            ticks = Some(ticks.unwrap_or_default() + sum);
        }
    }
    ticks.map(|ticks| f64::from(ticks) / TICKS)
}
