//! Standard output and standard error of the commands: the only place that writes to them.
//!
//! Text that came from elsewhere is part of most lines. What a terminal acts on is escaped in all
//! of them, also where a pipe reads: its other end may be a terminal.

use std::{
    fmt,
    io::{self, IsTerminal as _, Write as _},
};

use anyhow::Context as _;
use model::escape::{escape_json, escape_line, escape_lines};
use serde::Serialize;

/// What fails where standard output takes nothing.
pub(super) const PRINT: Print = Print;

/// See [`PRINT`]: a type, so that it is distinguished from other errors of a broken pipe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Print;

impl fmt::Display for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("print to standard output")
    }
}

/// Whether a command ended because the reader of its output closed it, as `head` does.
pub(super) fn is_reader_gone(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    error.downcast_ref::<Print>().is_some()
        && cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes `text`, which may have several lines, and a line feed to standard output.
///
/// # Errors
/// Why it could not be written.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    write(format!("{}\n", escape_lines(text)).as_bytes())
}

/// Writes `json`, a serialized document, and a line feed to standard output.
///
/// # Errors
/// As [`print`].
pub(super) fn print_json(json: &str) -> anyhow::Result<()> {
    write(format!("{}\n", escape_json(json)).as_bytes())
}

/// Writes `body` as a line of JSON to standard output.
///
/// # Errors
/// As [`print`].
pub(super) fn print_body(body: &impl Serialize) -> anyhow::Result<()> {
    print_json(&serde_json::to_string(body).context("write JSON")?)
}

/// Writes bytes of this program's own to standard output, and flushes it.
///
/// # Errors
/// As [`print`].
pub(super) fn write(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).context(PRINT)
}

/// Writes data that was asked for byte for byte to standard output: as they are into a pipe or a
/// file, escaped on a terminal.
///
/// # Errors
/// As [`print`].
pub(super) fn write_data(bytes: &[u8]) -> anyhow::Result<()> {
    if io::stdout().is_terminal() {
        write(escape_lines(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        write(bytes)
    }
}

/// As [`write_data`], to standard error. Where that is closed, the data are lost.
pub(super) fn write_data_to_stderr(bytes: &[u8]) {
    let mut err = io::stderr();
    drop(if err.is_terminal() {
        err.write_all(escape_lines(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        err.write_all(bytes)
    });
}

/// Writes a message to standard error. Where that is closed, the message is lost.
pub(super) fn tell(text: &str) {
    drop(writeln!(io::stderr(), "triptych: {}", escape_lines(text)));
}

/// Writes a log line, a JSON object, to standard error. Where that is closed, the line is lost.
pub(super) fn log_json(json: &str) {
    drop(writeln!(io::stderr(), "{}", escape_json(json)));
}

/// Whether standard error is a terminal, on which [`redraw`] works.
pub(super) fn can_redraw() -> bool {
    io::stderr().is_terminal()
}

/// Replaces the current line of the terminal on standard error by `text`.
pub(super) fn redraw(text: &str) {
    let mut err = io::stderr();
    drop(write!(err, "\r{}\x1b[K", escape_line(text)).and_then(|()| err.flush()));
}

/// Lines of columns, each as wide as its widest cell; numbers of `right` stand to the right.
///
/// Cells are escaped, so that each row is one line.
pub(super) fn table(header: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let escaped = |row: &Vec<String>| row.iter().map(|cell| escape_line(cell).into()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(escaped).collect();
    let header: Vec<String> = header.iter().map(|name| escape_line(name).into()).collect();
    let width = |idx: usize| {
        let cells = rows.iter().chain([&header]).filter_map(|row| row.get(idx));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(idx, (cell, width))| {
            if right.contains(&idx) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let lines = std::iter::once(line(&header)).chain(rows.iter().map(|row| line(row)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_output_that_nobody_reads_ends_a_command_well() {
        let broken = || Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe));
        let printed = broken().context(PRINT).context("show it").unwrap_err();
        assert!(is_reader_gone(&printed));
        assert!(!is_reader_gone(&broken().context("reach it").unwrap_err()));
        let full = Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull));
        assert!(!is_reader_gone(&full.context(PRINT).unwrap_err()));
    }

    #[test]
    fn a_table_is_as_wide_as_its_cells() {
        let rows = [vec!["1".to_owned(), "btc".to_owned()], vec!["20".to_owned(), "e".to_owned()]];
        assert_eq!(table(&["id", "name"], &rows, &[0]), "id  name\n 1  btc\n20  e");
    }

    #[test]
    fn a_cell_is_one_line() {
        let rows = [vec!["a\nb\u{1b}[2J".to_owned(), "c".to_owned()]];
        assert_eq!(table(&["x", "y"], &rows, &[]), "x              y\na\\nb\\u{1b}[2J  c");
    }
}
