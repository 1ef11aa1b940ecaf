//! Entries of the user's files of keys and themes, and errors in these entries.
//!
//! The caller parses the files. [`Keymap`](crate::keymap::Keymap) and
//! [`CustomTheme`](crate::theme::custom::CustomTheme) check the entries.

/// An entry `name = "value"` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name of the table that contains the entry. Empty above the first table.
    pub table: String,
    /// Name of the entry within the table.
    pub name: String,
    /// Value of the entry: a color, the name of an action, or `none`.
    pub value: String,
    /// Number of the line in the file.
    pub line: usize,
}

/// An invalid entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Number of the line with the invalid entry.
    pub line: usize,
    /// Reason why the entry is invalid, and valid alternatives.
    pub why: String,
}
