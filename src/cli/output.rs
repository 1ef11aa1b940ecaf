//! Standard output and standard error of the commands.

use std::{
    fmt,
    io::{self, Write as _},
};

use anyhow::Context as _;

/// What fails where standard output takes nothing.
pub(super) const PRINT: Print = Print;

/// See [`PRINT`]: a type, so that it is told from what else may fail with a broken pipe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Print;

impl fmt::Display for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("print to standard output")
    }
}

/// Whether a command ended because whoever read its output has had enough, as `head` has.
pub(super) fn is_reader_gone(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    error.downcast_ref::<Print>().is_some()
        && cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes a line to standard output.
///
/// # Errors
/// Why it could not be written.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).context(PRINT)
}

/// Writes bytes to standard output, to be read at once.
///
/// # Errors
/// As [`print`].
pub(super) fn write(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).context(PRINT)
}

/// Says on standard error what happened. Where that is closed, nobody wants to know.
pub(super) fn tell(text: &str) {
    drop(writeln!(io::stderr(), "triptych: {text}"));
}

/// What so many of what `one` names are called: `row` or `rows`.
pub(super) fn named(number: impl TryInto<u64>, one: &str) -> String {
    let is_one = number.try_into().is_ok_and(|number| number == 1);
    if is_one { one.to_owned() } else { format!("{one}s") }
}

/// Text of others with what a terminal would act on made visible.
pub(super) fn plain(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\u{20}'..='\u{7e}' | '\u{a0}'.. => vec![letter],
        _ => letter.escape_default().collect(),
    };
    text.chars().flat_map(shown).collect()
}

/// Lines of columns, each as wide as its widest cell; numbers of `right` stand to the right.
pub(super) fn table(header: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let width = |idx: usize| {
        let cells = rows.iter().filter_map(|row| row.get(idx)).map(|cell| cell.chars().count());
        cells.chain(header.get(idx).map(|name| name.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(idx, (cell, width))| {
            if right.contains(&idx) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let header: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
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
    fn what_a_terminal_acts_on_is_shown_as_what_it_is() {
        assert_eq!(plain("a\u{1b}[2Jé\n"), "a\\u{1b}[2Jé\\n");
    }
}
