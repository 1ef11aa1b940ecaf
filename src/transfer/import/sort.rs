//! Sorts rows by timestamp with limited memory.
//!
//! Rows beyond the limit are written to a temporary file in sorted runs, and merged from there.
//! Rows of the same timestamp keep their order, since the later one replaces the other.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, Read, Write},
    mem,
    os::unix::fs::FileExt as _,
    sync::Arc,
    vec,
};

use model::{
    row::{Row, Value},
    timestamp::Timestamp,
};

use super::report::Origin;

/// Maximum size of rows in memory: some million rows of a few numbers, so that most files need no
/// temporary file.
pub(super) const SORT_BYTES: usize = 256 * 1024 * 1024;

/// Minimum size of the buffer of a run, to avoid small reads.
const RUN_BYTES_MIN: usize = 16 * 1024;

/// Maximum size of the buffer of a run. More is not faster.
const RUN_BYTES_MAX: usize = 1024 * 1024;

/// A row and its origin.
pub(super) type OriginRow = (Row, Origin);

/// Receives rows in any order.
pub(super) struct Sorter {
    rows: Vec<OriginRow>,
    n_bytes: usize,
    bytes_max: usize,
    file: Option<Arc<File>>,
    /// End of each run in the file.
    ends: Vec<u64>,
    n_rows: u64,
}

/// Returns rows in ascending order.
pub(super) struct SortedRows {
    runs: Vec<Run>,
    /// Next row of each run.
    heads: Vec<Option<OriginRow>>,
    /// Timestamps of these rows, with the runs. Earlier runs have earlier rows of the file.
    order: BinaryHeap<Reverse<(Timestamp, usize)>>,
    n_rows: u64,
}

enum Run {
    Memory(vec::IntoIter<OriginRow>),
    Disk(BufReader<FilePart>),
}

/// A part of a file.
struct FilePart {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Sorter {
    /// Creates a sorter with `bytes_max` of memory.
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { rows: Vec::new(), n_bytes: 0, bytes_max, file: None, ends: Vec::new(), n_rows: 0 }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// An I/O error of the temporary file.
    pub(super) fn push(&mut self, row: Row, origin: Origin) -> io::Result<()> {
        self.n_bytes += row_bytes(&row);
        self.n_rows += 1;
        self.rows.push((row, origin));
        if self.n_bytes >= self.bytes_max { self.write_run() } else { Ok(()) }
    }

    /// Returns the rows in ascending order.
    ///
    /// # Errors
    /// An I/O error of the temporary file.
    pub(super) fn finish(mut self) -> io::Result<SortedRows> {
        self.sort();
        let n_runs = self.ends.len();
        let buffer_bytes = (self.bytes_max / (n_runs + 1)).clamp(RUN_BYTES_MIN, RUN_BYTES_MAX);
        let mut runs = Vec::new();
        if let Some(file) = &self.file {
            let begins = [0].into_iter().chain(self.ends.iter().copied());
            for (at, end) in begins.zip(self.ends.iter().copied()) {
                let part = FilePart { file: Arc::clone(file), at, end };
                runs.push(Run::Disk(BufReader::with_capacity(buffer_bytes, part)));
            }
        }
        runs.push(Run::Memory(mem::take(&mut self.rows).into_iter()));
        let (heads, order) = (Vec::new(), BinaryHeap::new());
        let mut sorted = SortedRows { runs, heads, order, n_rows: self.n_rows };
        for idx in 0..sorted.runs.len() {
            sorted.heads.push(None);
            sorted.advance(idx)?;
        }
        Ok(sorted)
    }

    fn sort(&mut self) {
        self.rows.sort_by_key(|(row, _)| row.timestamp);
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.sort();
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(Arc::new(tempfile::tempfile()?))),
        };
        let mut to = BufWriter::with_capacity(RUN_BYTES_MAX, &*file);
        let mut n_bytes = self.ends.last().copied().unwrap_or(0);
        let mut bytes = Vec::new();
        for (row, origin) in self.rows.drain(..) {
            bytes.clear();
            encode(&mut bytes, &row, origin);
            to.write_all(&bytes)?;
            n_bytes += bytes.len() as u64;
        }
        to.flush()?;
        self.ends.push(n_bytes);
        self.n_bytes = 0;
        Ok(())
    }
}

impl SortedRows {
    /// Returns the number of all rows.
    pub(super) const fn n_rows(&self) -> u64 {
        self.n_rows
    }

    /// Returns the next row; `None` after the last one.
    ///
    /// # Errors
    /// An I/O error of the temporary file.
    pub(super) fn next(&mut self) -> io::Result<Option<OriginRow>> {
        let Some(Reverse((_, idx))) = self.order.pop() else { return Ok(None) };
        let row = self.heads.get_mut(idx).and_then(Option::take);
        self.advance(idx)?;
        Ok(row)
    }

    /// Reads the next row of a run.
    fn advance(&mut self, idx: usize) -> io::Result<()> {
        let next = match self.runs.get_mut(idx) {
            Some(Run::Memory(rows)) => rows.next(),
            Some(Run::Disk(text)) => {
                let is_end = text.fill_buf()?.is_empty();
                if is_end { None } else { Some(decode(text)?) }
            }
            None => None,
        };
        if let Some((row, _)) = &next {
            self.order.push(Reverse((row.timestamp, idx)));
        }
        if let Some(head) = self.heads.get_mut(idx) {
            *head = next;
        }
        Ok(())
    }
}

impl Read for FilePart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let n_wanted = n_left.min(buffer.len());
        let n_read = self.file.read_at(buffer.get_mut(..n_wanted).unwrap_or_default(), self.at)?;
        self.at += n_read as u64;
        Ok(n_read)
    }
}

/// Returns the approximate size of a row in memory.
fn row_bytes(row: &Row) -> usize {
    let text_bytes = |value: &Option<Value>| match value {
        Some(Value::String(text)) => text.len(),
        _ => 0,
    };
    size_of::<OriginRow>()
        + row.values.len() * size_of::<Option<Value>>()
        + row.values.iter().map(text_bytes).sum::<usize>()
}

/// Writes a row: timestamp, line, whether it was cut, the number of values, and each value after
/// its kind.
fn encode(to: &mut Vec<u8>, row: &Row, origin: Origin) {
    to.extend_from_slice(&row.timestamp.micros().to_le_bytes());
    to.extend_from_slice(&origin.line.to_le_bytes());
    to.push(origin.is_cut.into());
    to.extend_from_slice(&(row.values.len() as u64).to_le_bytes());
    for value in &row.values {
        match value {
            None => to.push(0),
            Some(Value::Float(number)) => {
                to.push(1);
                to.extend_from_slice(&number.to_le_bytes());
            }
            Some(Value::Integer(number)) => {
                to.push(2);
                to.extend_from_slice(&number.to_le_bytes());
            }
            Some(Value::Boolean(truth)) => to.extend_from_slice(&[3, (*truth).into()]),
            Some(Value::String(text)) => {
                to.push(4);
                to.extend_from_slice(&(text.len() as u64).to_le_bytes());
                to.extend_from_slice(text.as_bytes());
            }
        }
    }
}

/// Reads a row that [`encode`] wrote.
fn decode(from: &mut impl Read) -> io::Result<OriginRow> {
    let timestamp = Timestamp::from_micros(i64::from_le_bytes(read_bytes(from)?));
    let line = u64::from_le_bytes(read_bytes(from)?);
    let [is_cut] = read_bytes(from)?;
    let n_values = u64::from_le_bytes(read_bytes(from)?);
    let value = |_| {
        let [kind] = read_bytes(from)?;
        Ok(match kind {
            0 => None,
            1 => Some(Value::Float(f64::from_le_bytes(read_bytes(from)?))),
            2 => Some(Value::Integer(i64::from_le_bytes(read_bytes(from)?))),
            3 => Some(Value::Boolean(read_bytes(from)? == [1])),
            _ => {
                let n_bytes = u64::from_le_bytes(read_bytes(from)?);
                let mut text = String::new();
                from.by_ref().take(n_bytes).read_to_string(&mut text)?;
                Some(Value::String(text))
            }
        })
    };
    let values = (0..n_values).map(value).collect::<io::Result<_>>()?;
    Ok((Row { timestamp, values }, Origin { line, is_cut: is_cut == 1 }))
}

fn read_bytes<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorts rows at these seconds, each with its index as a value.
    #[track_caller]
    fn check(seconds: &[i64], bytes_max: usize) {
        let mut sorter = Sorter::new(bytes_max);
        for (line, at) in (0..).zip(seconds) {
            let values = vec![
                Some(Value::Integer(line)),
                None,
                Some(Value::Float(0.5)),
                Some(Value::String(format!("é{line}"))),
                Some(Value::Boolean(line % 2 == 0)),
            ];
            let row = Row { timestamp: Timestamp::from_seconds(*at), values };
            sorter.push(row, Origin { line: line.cast_unsigned(), is_cut: line % 3 == 0 }).unwrap();
        }
        let mut want: Vec<(i64, i64)> = (0..).zip(seconds).map(|(line, at)| (*at, line)).collect();
        want.sort_unstable();
        let mut sorted = sorter.finish().unwrap();
        assert_eq!(sorted.n_rows(), want.len() as u64);
        for (at, line) in want {
            let (row, origin) = sorted.next().unwrap().unwrap();
            assert_eq!(row.timestamp.seconds(), at);
            assert_eq!(row.values[0], Some(Value::Integer(line)));
            assert_eq!(row.values[3], Some(Value::String(format!("é{line}"))));
            assert_eq!(row.values[4], Some(Value::Boolean(line % 2 == 0)));
            assert_eq!((origin.line, origin.is_cut), (line.cast_unsigned(), line % 3 == 0));
        }
        assert!(sorted.next().unwrap().is_none());
    }

    #[test]
    fn rows_are_sorted_and_equal_ones_keep_their_order() {
        let seconds: Vec<i64> = (0..500).map(|row| row * 37 % 101).collect();
        // All in memory, in some runs, and in one run per row.
        for bytes_max in [usize::MAX, 20_000, 1] {
            check(&seconds, bytes_max);
            check(&[], bytes_max);
        }
    }
}
