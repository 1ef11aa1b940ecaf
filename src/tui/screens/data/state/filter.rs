//! Finding datasets by one field of their metadata.

use std::collections::BTreeSet;

use model::dataset::Dataset;

use crate::state::field::Field;

/// Pairs remembered to choose from: those of a few hundred datasets.
const KNOWN_MAX: usize = 500;

/// Pairs shown below what is typed.
const CHOICES_MAX: usize = 8;

/// The metadata filter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// `field=value`, as it is typed.
    pub(crate) text: Field,
    /// The field and the value in force.
    chosen: Option<(String, String)>,
    /// The pairs of all datasets seen so far.
    known: BTreeSet<String>,
    /// What was typed before the first choice was taken.
    typed: Option<String>,
}

impl Filter {
    /// The field and the value in force.
    pub(crate) const fn active(&self) -> Option<&(String, String)> {
        self.chosen.as_ref()
    }

    /// Known pairs that hold what is typed.
    pub(crate) fn choices(&self) -> Vec<&str> {
        let typed = self.typed.as_deref().unwrap_or_else(|| self.text.value()).to_lowercase();
        let known = self.known.iter().filter(|pair| pair.to_lowercase().contains(&typed));
        known.take(CHOICES_MAX).map(String::as_str).collect()
    }

    pub(crate) fn add_values(&mut self, datasets: &[Dataset]) {
        for (field, value) in datasets.iter().flat_map(|dataset| &dataset.metadata) {
            if self.known.len() < KNOWN_MAX {
                self.known.insert(format!("{field}={value}"));
            }
        }
    }

    /// Handles an edit of the filter text.
    pub(crate) fn edited(&mut self) {
        self.typed = None;
    }

    /// Selects the known pair `n` after the current one.
    pub(crate) fn choose(&mut self, n: isize) {
        let choices = self.choices();
        let here = choices.iter().position(|choice| *choice == self.text.value());
        let len = choices.len().max(1).cast_signed();
        let next = here.map_or(if n < 0 { -1 } else { 0 }, |here| here.cast_signed() + n);
        let next = next.rem_euclid(len).cast_unsigned();
        let Some(choice) = choices.get(next).map(|choice| (*choice).to_owned()) else { return };
        self.typed.get_or_insert_with(|| self.text.value().to_owned());
        self.text.set(&choice);
    }

    /// Applies the typed filter; returns whether it changed.
    pub(crate) fn apply(&mut self) -> bool {
        let pair = self.text.value().split_once('=');
        let pair = pair.map(|(field, value)| (field.trim().to_owned(), value.trim().to_owned()));
        let pair = pair.filter(|(field, value)| !field.is_empty() && !value.is_empty());
        self.typed = None;
        // What is no pair is typed on.
        if pair.is_some() || self.text.value().trim().is_empty() {
            self.text.confirm();
        }
        let is_other = pair != self.chosen;
        self.chosen = pair;
        is_other
    }

    /// Removes the filter; returns whether there was one.
    pub(crate) fn clear(&mut self) -> bool {
        self.typed = None;
        self.text.clear() | self.chosen.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(known: &[&str], typed: &str) -> Filter {
        let known = known.iter().map(|pair| (*pair).to_owned()).collect();
        Filter { text: Field::edited(typed), known, ..Filter::default() }
    }

    #[test]
    fn a_valid_pair_is_applied_and_other_text_stays_focused() {
        let mut filter = filter(&[], "ticker");
        filter.text.edit();
        assert!(!filter.apply() && filter.text.is_edited());
        filter.text.set(" ticker = BTC ");
        assert!(filter.apply() && !filter.text.is_edited());
        assert_eq!(filter.active(), Some(&("ticker".to_owned(), "BTC".to_owned())));
        assert!(!filter.apply(), "the same again");
        assert!(filter.clear() && filter.active().is_none());
    }

    #[test]
    fn known_pairs_matching_the_text_are_selected_in_turn() {
        let mut filter = filter(&["source=tiingo", "ticker=BTC", "ticker=ETH"], "tick");
        for want in ["ticker=BTC", "ticker=ETH", "ticker=BTC"] {
            filter.choose(1);
            assert_eq!(filter.text.value(), want);
        }
        filter.choose(-1);
        assert_eq!(filter.text.value(), "ticker=ETH");
    }
}
