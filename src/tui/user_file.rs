//! Entries of the user's key and theme files, and their errors.
//!
//! The caller reads the files. [`Keymap`](crate::keymap::Keymap) and
//! [`CustomTheme`](crate::theme::custom::CustomTheme) check the entries.

/// An entry `name = "value"` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Table that contains it. Empty above the first table.
    pub table: String,
    /// Name within the table.
    pub name: String,
    /// A color, the name of an action, or `none`.
    pub value: String,
    /// Line number in the file.
    pub line: usize,
}

/// An invalid entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line number of the entry.
    pub line: usize,
    /// Reason and valid alternatives.
    pub why: String,
}
