//! Entries of the user's files of keys and themes, and why one cannot be followed.
//!
//! What a file may hold is judged by [`Keymap`](crate::keymap::Keymap) and
//! [`CustomTheme`](crate::theme::custom::CustomTheme); reading it is the caller's part.

/// A text of a file: `name = "value"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The table it stands in; empty above the first.
    pub table: String,
    /// Its name within the table.
    pub name: String,
    /// Its value: a color, the name of an action, or `none`.
    pub value: String,
    /// Its line in the file.
    pub line: usize,
}

/// Why an entry cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line of the entry.
    pub line: usize,
    /// Why, and what to write instead.
    pub why: String,
}
