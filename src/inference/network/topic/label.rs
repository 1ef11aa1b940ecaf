//! Labels: which texts are one, and which of them are the same.

use super::Labeling;

/// The longest label taken, in bytes, by the chain's parameters.
pub const LABEL_BYTES_MAX: usize = 64;

/// Returns `text` as a label is written: trimmed, and in small letters where case does not matter.
/// None where it is not 1 to [`LABEL_BYTES_MAX`] letters, digits, `_`, `-`, `/`, `.` or spaces.
pub fn canonical(text: &str, labeling: Labeling) -> Option<String> {
    let trimmed = text.trim();
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | '/' | '.');
    let is_label =
        !trimmed.is_empty() && trimmed.len() <= LABEL_BYTES_MAX && trimmed.chars().all(is_taken);
    let cased = |label: &str| {
        if labeling.is_case_sensitive { label.to_owned() } else { label.to_ascii_lowercase() }
    };
    is_label.then(|| cased(trimmed))
}

/// Whether `label` is written as [`canonical`] writes it.
pub fn is_fit(label: &str, labeling: Labeling) -> bool {
    canonical(label, labeling).is_some_and(|canonical| canonical == label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is_case_sensitive: bool, want: Option<&str>) {
        let labeling = Labeling { is_case_sensitive, ..Labeling::MULTI };
        assert_eq!(canonical(text, labeling).as_deref(), want, "{text:?}");
    }

    #[test]
    fn labels_are_trimmed_and_small_unless_case_matters() {
        check("  Up ", false, Some("up"));
        check("  Up ", true, Some("Up"));
        check("BTC/USD 5-min_v1.2", false, Some("btc/usd 5-min_v1.2"));
        assert!(!is_fit("Up", Labeling::MULTI) && is_fit("up", Labeling::MULTI));
    }

    #[test]
    fn other_texts_are_no_labels() {
        for text in ["", "  ", "a\tb", "größe", "a;b", &"x".repeat(65)] {
            check(text, false, None);
        }
        check(&"x".repeat(64), false, Some(&"x".repeat(64)));
    }
}
