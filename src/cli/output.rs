//! Standard output and standard error of the commands. Only this module writes to them.
//!
//! Most lines contain text that services or files provide, such as names. Therefore terminal control
//! characters are escaped in all lines, even if the output is a pipe, since its reader can write to a
//! terminal.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use client::error::ClientError;
use db::postgres::fault::diagnose;
use model::escape::{escape_json, escape_line, escape_lines};
use serde::Serialize;
use task::causes::chain;
use tokio::time::{Instant, interval_at};

/// Time after which a wait is first reported. Shorter waits need no explanation.
const REPORT_AFTER: Duration = Duration::from_secs(2);

/// Interval between further reports of a wait.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Error context of a failure to write to standard output. Its type distinguishes a closed standard
/// output from other broken pipes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrintError;

impl fmt::Display for PrintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot write to standard output")
    }
}

/// Returns true if a command failed because the reader of its standard output closed the pipe, as
/// `head` does after some lines.
pub(super) fn is_reader_gone(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    error.downcast_ref::<PrintError>().is_some()
        && cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes `text`, which can have several lines, to standard output with a line feed.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    write(format!("{}\n", escape_lines(text)).as_bytes())
}

/// Writes `json`, a serialized document, to standard output with a line feed.
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
    print_json(&serde_json::to_string(body)?)
}

/// Prints `body`: as a line of JSON if `is_json`, otherwise as the text that `text` formats.
///
/// # Errors
/// As [`print`].
pub(super) fn show<T: Serialize>(
    is_json: bool,
    body: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    if is_json { print_body(body) } else { print(&text(body)) }
}

/// Prints `items`: each as a line of JSON if `is_json`, otherwise as a table with a row for each.
/// Prints nothing for an empty list.
///
/// # Errors
/// As [`print`].
pub(super) fn print_list<T: Serialize>(
    items: &[T],
    is_json: bool,
    columns: &[Column<'_, T>],
) -> anyhow::Result<()> {
    if is_json {
        return items.iter().try_for_each(print_body);
    }
    if items.is_empty() { Ok(()) } else { print(&table_of(items, columns)) }
}

/// Writes bytes to standard output without escaping and flushes it. Only for bytes that this program
/// makes itself.
///
/// # Errors
/// As [`print`].
pub(super) fn write(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).context(PrintError)
}

/// Writes data, such as the output of a function, to standard output. On a terminal they are escaped,
/// and to a pipe or file they are written byte for byte.
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

/// Writes data to standard error as [`write_data`] does. Errors are ignored, for example if it is
/// closed.
pub(super) fn write_data_to_stderr(bytes: &[u8]) {
    let mut err = io::stderr();
    drop(if err.is_terminal() {
        err.write_all(escape_lines(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        err.write_all(bytes)
    });
}

/// Writes a message for the user to standard error. Errors are ignored, for example if it is closed.
pub(super) fn tell(text: &str) {
    drop(writeln!(io::stderr(), "triptych: {}", escape_lines(text)));
}

/// Writes an error with its causes to standard error. If it has a hint, the hint is on a separate line.
pub(super) fn report_error(error: &anyhow::Error) {
    let is_about_connection = |it: &&ClientError| {
        matches!(it, ClientError::Reach { .. } | ClientError::Lost { .. })
            || it.connection_advice().is_some()
    };
    let unreached = error.downcast_ref::<ClientError>().filter(is_about_connection);
    let hint = diagnose(&**error).map(|fault| fault.next);
    let hint = hint.or_else(|| unreached.map(ClientError::next_step));
    let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    drop(writeln!(io::stderr(), "error: {}{hint}", escape_lines(&chain(&**error))));
}

/// Runs `work` and returns its result. If it is slow, regularly writes its description, `doing`, with
/// the elapsed time to standard error.
pub(super) async fn with_progress<T>(doing: &str, work: impl Future<Output = T>) -> T {
    report_progress(doing, work, |line| tell(&line)).await
}

async fn report_progress<T>(
    doing: &str,
    work: impl Future<Output = T>,
    mut report: impl FnMut(String),
) -> T {
    let started = Instant::now();
    let mut reports = interval_at(started + REPORT_AFTER, REPORT_EVERY);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = reports.tick() => {
                report(format!("{doing}, for {} s so far", started.elapsed().as_secs()));
            }
        }
    }
}

/// Tells the user that a stream was lost, and later that it is back, without repeating either for each
/// attempt.
#[derive(Debug, Default)]
pub(super) struct StreamStatus {
    is_lost: bool,
}

impl StreamStatus {
    pub(super) fn connected(&mut self) {
        if std::mem::take(&mut self.is_lost) {
            tell("the stream is back");
        }
    }

    pub(super) fn lost(&mut self, why: &ClientError) {
        if !std::mem::replace(&mut self.is_lost, true) {
            tell(&format!("lost the stream, reconnecting: {}", why.why()));
        }
    }
}

/// Writes a log line, a JSON object, to standard error. Errors are ignored, for example if it is
/// closed.
pub(super) fn log_json(json: &str) {
    drop(writeln!(io::stderr(), "{}", escape_json(json)));
}

/// Returns true if standard error is a terminal, on which [`redraw`] works.
pub(super) fn can_redraw() -> bool {
    io::stderr().is_terminal()
}

/// Replaces the current line of the terminal on standard error by `text`.
pub(super) fn redraw(text: &str) {
    let mut err = io::stderr();
    drop(write!(err, "\r{}\x1b[K", escape_line(text)).and_then(|()| err.flush()));
}

/// Column of a table: its name, with a prefix `>` if the column is right-aligned, and a function that
/// formats the cell of an item.
pub(super) type Column<'c, T> = (&'c str, &'c dyn Fn(&T) -> String);

/// Formats `items` as a table with a row for each.
pub(super) fn table_of<T>(items: &[T], columns: &[Column<'_, T>]) -> String {
    let header: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let row = |item: &T| columns.iter().map(|(_, cell)| cell(item)).collect();
    table(&header, &items.iter().map(row).collect::<Vec<_>>())
}

/// Formats rows as a table in which each column is as wide as its widest cell. A column is
/// right-aligned if its name has the prefix `>`.
///
/// Cells are escaped, so that each row is one line.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let is_right: Vec<bool> = header.iter().map(|name| name.starts_with('>')).collect();
    let header = header.iter().map(|name| name.strip_prefix('>').unwrap_or(name));
    let escaped = |row: &Vec<String>| row.iter().map(|cell| escape_line(cell).into()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(escaped).collect();
    let header: Vec<String> = header.map(|name| escape_line(name).into()).collect();
    let width = |idx: usize| {
        let cells = rows.iter().chain([&header]).filter_map(|row| row.get(idx));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).zip(&is_right).map(|((cell, width), is_right)| {
            if *is_right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
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
    fn broken_pipe_of_standard_output_is_not_an_error() {
        let broken = || Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe));
        let printed = broken().context(PrintError).context("cannot show it").unwrap_err();
        assert!(is_reader_gone(&printed));
        assert!(!is_reader_gone(&broken().context("cannot connect").unwrap_err()));
        let full = Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull));
        assert!(!is_reader_gone(&full.context(PrintError).unwrap_err()));
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [vec!["1".to_owned(), "btc".to_owned()], vec!["20".to_owned(), "e".to_owned()]];
        assert_eq!(table(&[">id", "name"], &rows), "id  name\n 1  btc\n20  e");
    }

    #[test]
    fn control_characters_in_a_cell_are_escaped() {
        let rows = [vec!["a\nb\u{1b}[2J".to_owned(), "c".to_owned()]];
        assert_eq!(table(&["x", "y"], &rows), "x              y\na\\nb\\u{1b}[2J  c");
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_reported_only_for_long_work() {
        for (seconds, want) in
            [(1, &[][..]), (20, &["working, for 2 s so far", "working, for 12 s so far"][..])]
        {
            let mut lines = Vec::new();
            let work = tokio::time::sleep(Duration::from_secs(seconds));
            report_progress("working", work, |line| lines.push(line)).await;
            assert_eq!(lines, want);
        }
    }
}
