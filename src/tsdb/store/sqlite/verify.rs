//! Verifies a store: reads every chunk and computes every bucket again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use db::statement::Statements as _;
use model::block::Block;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::bucket_reader;
use super::chunk_index::to_u64;
use super::chunks::{self, Chunk};
use super::rebuild_buckets::BucketRebuild;
use super::scan::{self, Scan};
use super::series::{KEPT, SeriesId};
use super::{Result, StoreError, catalog, progress, tables};
use crate::archive::month::Month;
use crate::archive::objects::Objects;
use crate::report::{Progress, Report};
use crate::rollup::{coarsen, stored_bits};
use crate::span::{Order, Span};
use crate::store::session::ready;
use crate::store::{PageRead, records};

/// Time range whose buckets are compared at once: about 18 000 buckets of five minutes. A chunk that
/// overlaps several ranges is read once for each.
const WINDOW: Duration = Duration::from_hours(24 * 64);

/// Maximum number of faults that SQLite reports for its file.
const COMPLAINTS_MAX: u32 = 20;

/// Verifies the store at `path`, in one snapshot.
pub(crate) fn verify(
    path: &Path,
    archive: Option<&Objects>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report> {
    let mut connection = tables::SCHEMA.open_read_only(path)?;
    let read = connection.transaction()?;
    tables::SCHEMA.check_version(&read)?;
    let mut report = Report::default();
    let check = format!("PRAGMA integrity_check({COMPLAINTS_MAX})");
    for complaint in read.all(&check, [], |row| row.get::<_, String>(0))? {
        if complaint != "ok" {
            report.fault(format!("the file is damaged: {complaint}"));
        }
    }
    let n_rows: u64 = read.value(
        "SELECT (SELECT coalesce(sum(n), 0) FROM chunks WHERE resolution = 0)
         + (SELECT count(*) FROM tail)",
        [],
    )?;
    let mut verifier =
        Verifier { connection: &read, archive, report, progress, n_done: 0, n_all: 2 * n_rows };
    let mut last = 0;
    let next = "SELECT id FROM datasets WHERE id > ?1 ORDER BY id LIMIT 1";
    while let Some(dataset) = read.find(next, [last], tables::dataset_id)? {
        last = dataset.get();
        verifier.dataset(dataset)?;
    }
    Ok(verifier.report)
}

struct Verifier<'a> {
    connection: &'a Connection,
    archive: Option<&'a Objects>,
    report: Report,
    progress: &'a mut dyn FnMut(Progress),
    n_done: u64,
    n_all: u64,
}

impl Verifier<'_> {
    fn dataset(&mut self, dataset: DatasetId) -> Result<()> {
        self.report.n_datasets += 1;
        let progress = progress::Progress::read(self.connection, dataset)?;
        let series = SeriesId::rows(dataset);
        let rows = scan::empty(self.connection, series)?;
        let is_whole = self.series(series, &rows)?;
        for resolution in KEPT {
            let series = SeriesId { dataset, resolution };
            self.series(series, &scan::empty(self.connection, series)?)?;
        }
        if is_whole {
            let n_rows = scan::count(self.connection, series, Span::ALL)?;
            let mut n_seen = 0;
            let scan = Scan { columns: Some(&[]), ..Scan::all(series, Span::ALL, rows.clone()) };
            scan.blocks(self.connection, &mut |block| n_seen += to_u64(block.len()))?;
            self.report.n_rows += n_seen;
            if n_seen != n_rows {
                let fault = format!("dataset {dataset}: {n_seen} rows, but {n_rows} are counted");
                self.report.fault(fault);
            }
            if progress::newest(self.connection, dataset)?.max(progress.state.newest_archived)
                != progress.state.newest
            {
                let fault = "the recorded latest row is not the latest row";
                self.report.fault(format!("dataset {dataset}: {fault}"));
            }
        }
        if let Some(archive) = self.archive {
            let months = ready(records::months(&mut &*self.connection, dataset, Span::ALL))?;
            self.report.check_archived(dataset, &months, archive, &rows);
        }
        match catalog::fold(self.connection, dataset)? {
            Some(fold) => {
                let rebuild = BucketRebuild::new(self.connection, dataset, fold, None, None)?;
                self.buckets(&rebuild, progress.state.kept_from)
            }
            None => Ok(()),
        }
    }

    /// Reads every chunk of a series. Returns true if all of them could be read.
    fn series(&mut self, series: SeriesId, empty: &Block) -> Result<bool> {
        let connection = self.connection;
        let mut last_end = None;
        let mut is_whole = true;
        chunks::touching(connection, series, Span::ALL, Order::Ascending, &mut |chunk| {
            let wrong = match chunks::read(connection, series, chunk, empty.clone()) {
                Ok(rows) => wrong_in(chunk, &rows, last_end),
                Err(StoreError::Damaged { source, .. }) => {
                    is_whole = false;
                    Some(source.to_string())
                }
                Err(error) => return Err(error),
            };
            last_end = Some(chunk.span.last);
            if let Some(what) = wrong {
                let SeriesId { dataset, resolution } = series;
                let Span { first, last } = chunk.span;
                self.report.fault(format!(
                    "dataset {dataset}: the {resolution} chunk from {first} to {last}: {what}"
                ));
            }
            if series.resolution == Resolution::Raw {
                self.passed(to_u64(chunk.n));
            }
            Ok(true)
        })?;
        Ok(is_whole)
    }

    fn passed(&mut self, n_rows: u64) {
        self.n_done += n_rows;
        (self.progress)(Progress { n_done: self.n_done.min(self.n_all), n_all: self.n_all });
    }

    /// Compares all stored buckets with buckets computed from rows or shorter buckets.
    fn buckets(&mut self, rebuild: &BucketRebuild<'_>, kept_from: Option<Timestamp>) -> Result<()> {
        let dataset = rebuild.dataset;
        let mut from = Timestamp::MIN;
        while from < Timestamp::MAX
            && let Some(next) = self.next(dataset, from)?
        {
            let first = Resolution::Day.bucket_start(next);
            let end = first + WINDOW;
            let window = Span { first, last: end - Duration::from_micros(1) };
            match self.window(rebuild, window, kept_from) {
                // The damaged chunk was already reported when its series was read.
                Err(StoreError::Damaged { .. }) => {}
                compared => compared?,
            }
            from = end;
        }
        Ok(())
    }

    /// Returns the first timestamp from `from` on at which a row or a bucket is stored.
    fn next(&self, dataset: DatasetId, from: Timestamp) -> Result<Option<Timestamp>> {
        let rest = PageRead::raw(Span { first: from, ..Span::ALL }, Order::Ascending, 1);
        let mut next: Option<Timestamp> = None;
        for resolution in [Resolution::Raw].into_iter().chain(KEPT) {
            let series = SeriesId { dataset, resolution };
            let first = match scan::page(self.connection, series, &rest) {
                Ok(page) => page.times.first().copied(),
                Err(StoreError::Damaged { .. }) => {
                    chunks::ending_from(self.connection, series, from)?
                        .map(|chunk| chunk.span.first.max(from))
                }
                Err(error) => return Err(error),
            };
            next = next.into_iter().chain(first).min();
        }
        Ok(next)
    }

    fn window(
        &mut self,
        rebuild: &BucketRebuild<'_>,
        window: Span,
        kept_from: Option<Timestamp>,
    ) -> Result<()> {
        let (connection, dataset) = (self.connection, rebuild.dataset);
        let archived = ready(records::months(&mut &*connection, dataset, window))?;
        // Buckets of five minutes with pruned or archived rows are skipped, since not all of their rows
        // are stored.
        let is_known = |bucket: &Bucket| {
            let month = Month::of(bucket.timestamp);
            kept_from.is_none_or(|kept_from| bucket.timestamp >= kept_from)
                && archived.binary_search_by_key(&month, |archived| archived.file.month).is_err()
        };
        let n_rows = scan::count(connection, SeriesId::rows(dataset), window)?;
        let mut want = rebuild.fold(connection, window, &mut Vec::new())?;
        self.passed(n_rows);
        want.retain(is_known);
        for (idx, resolution) in KEPT.into_iter().enumerate() {
            let series = SeriesId { dataset, resolution };
            let stored = bucket_reader::read(connection, series, window)?;
            let found = stored.iter().filter(|bucket| idx > 0 || is_known(bucket)).copied();
            self.compare(series, want, found);
            want = KEPT.get(idx + 1).map_or_else(Vec::new, |longer| coarsen(&stored, *longer));
        }
        Ok(())
    }

    fn compare(
        &mut self,
        series: SeriesId,
        want: Vec<Bucket>,
        found: impl Iterator<Item = Bucket>,
    ) {
        let mut both: BTreeMap<Timestamp, [Option<Bucket>; 2]> = BTreeMap::new();
        for bucket in want {
            both.insert(bucket.timestamp, [Some(bucket), None]);
        }
        for bucket in found {
            both.entry(bucket.timestamp).or_default()[1] = Some(bucket);
        }
        for (start, [want, found]) in both {
            self.report.n_buckets += 1;
            if want.as_ref().map(stored_bits) == found.as_ref().map(stored_bits) {
                continue;
            }
            let what = match (want, found) {
                (Some(_), None) => "is missing".to_owned(),
                (None, _) => "has no rows".to_owned(),
                (Some(want), Some(found)) => format!("is {found:?}, its rows give {want:?}"),
            };
            let SeriesId { dataset, resolution } = series;
            let fault = format!("dataset {dataset}: the {resolution} bucket at {start} {what}");
            self.report.fault(fault);
        }
    }
}

/// Describes the fault of a chunk that was read, if any. `last_end` is the end of the preceding chunk.
fn wrong_in(chunk: Chunk, rows: &Block, last_end: Option<Timestamp>) -> Option<String> {
    if !rows.times.is_sorted_by(|a, b| a < b) {
        return Some("its rows are out of order".to_owned());
    }
    let is_after = last_end.is_none_or(|end| end < chunk.span.first);
    (!is_after).then(|| "it overlaps the previous chunk".to_owned())
}
