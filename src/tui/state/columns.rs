//! The columns of tables that are hidden.

use std::collections::BTreeSet;

use strum::{IntoStaticStr, VariantArray};

/// A table whose columns can be chosen; the names stand in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum TableName {
    Nodes,
    Runs,
    Processes,
    Datasets,
    Topics,
    Actors,
}

/// The columns that are hidden, by their tables and titles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HiddenColumns(BTreeSet<(TableName, String)>);

impl HiddenColumns {
    /// Returns true if the column of `table` with this title is hidden.
    pub(crate) fn is_hidden(&self, table: TableName, title: &str) -> bool {
        self.0.contains(&(table, title.trim().to_owned()))
    }

    /// Hides a column, or shows it again.
    pub(crate) fn toggle(&mut self, table: TableName, title: &str) {
        let column = (table, title.to_owned());
        if !self.0.remove(&column) {
            self.0.insert(column);
        }
    }

    /// The hidden columns as texts: `nodes PING`.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.iter().map(|(table, title)| format!("{} {title}", <&str>::from(*table))).collect()
    }

    /// Reads texts as [`Self::texts`] writes them, as far as they are valid.
    pub(crate) fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let column = |text: &str| {
            let (table, title) = text.split_once(' ')?;
            let mut tables = TableName::VARIANTS.iter().copied();
            Some((tables.find(|it| <&str>::from(*it) == table)?, title.to_owned()))
        };
        Self(texts.filter_map(column).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_columns_round_trip_as_texts() {
        let mut hidden = HiddenColumns::default();
        hidden.toggle(TableName::Actors, "MEAN LOSS");
        hidden.toggle(TableName::Nodes, "PING");
        assert_eq!(hidden.texts(), ["nodes PING", "actors MEAN LOSS"]);
        let texts = ["nodes PING", "actors MEAN LOSS", "moon X", "nodes"];
        assert_eq!(HiddenColumns::parse(texts.into_iter()), hidden);
        assert!(hidden.is_hidden(TableName::Nodes, " PING"));
        hidden.toggle(TableName::Nodes, "PING");
        assert!(!hidden.is_hidden(TableName::Nodes, "PING"));
    }
}
