//! Measures the disk of the machine in the same run, so that the figures can be compared with the speed
//! of the disk.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use test_bench::Outcome;

/// Number of measured syncs.
const SYNCS: usize = 200;

/// Approximate number of bytes that a commit of 1000 rows writes.
const COMMIT_BYTES: usize = 72 << 10;

/// Returns the median duration in seconds of a write of [`COMMIT_BYTES`] with a sync. The length of the
/// file does not change.
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
        // The first write is not measured, since it extends the file.
        if sync > 0 {
            taken.push(start.elapsed());
        }
    }
    fs::remove_file(&path)?;
    taken.sort_unstable();
    Ok(taken.get(SYNCS / 2).map_or(0.0, Duration::as_secs_f64))
}
