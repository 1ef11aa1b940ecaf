//! Addresses that stand before a subcommand, as in `triptych --head URL nodes`: they mean the same as
//! behind it.

use std::ffi::OsString;

/// The options that name where services are.
const OPTIONS: [&str; 4] = ["--head", "--datasets", "--inference", "--profile"];

/// The subcommands that take them, and of how many words each is.
const COMMANDS: [(&str, usize); 5] =
    [("nodes", 1), ("tui", 1), ("function", 2), ("datasets", 2), ("inference", 2)];

/// `arguments` with the options at their start behind the subcommand that follows them, where there is
/// one that takes them; else unchanged.
pub(super) fn behind_command(arguments: Vec<OsString>) -> Vec<OsString> {
    let n_words = n_leading(arguments.get(1..).unwrap_or_default());
    let from = n_words + 1;
    let command = arguments.get(from).and_then(|word| word.to_str());
    let command = command.and_then(|word| COMMANDS.iter().find(|(name, _)| *name == word));
    let Some((_, length)) = command.filter(|_| n_words > 0) else { return arguments };
    let mut ordered = arguments;
    // The subcommand goes before the options.
    let end = ordered.len().min(from + length);
    if let Some(part) = ordered.get_mut(1..end) {
        part.rotate_left(n_words);
    }
    ordered
}

/// How many words at the start of `words` are these options and their values.
fn n_leading(words: &[OsString]) -> usize {
    let mut n = 0;
    while let Some(word) = words.get(n).and_then(|word| word.to_str()) {
        let is_option = OPTIONS.contains(&word);
        let has_value = OPTIONS
            .iter()
            .any(|option| word.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')));
        match (is_option, has_value) {
            (true, _) => n += 2,
            (false, true) => n += 1,
            (false, false) => break,
        }
    }
    n.min(words.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, want: &str) {
        let arguments = line.split(' ').map(OsString::from).collect();
        let ordered: Vec<String> =
            behind_command(arguments).into_iter().map(|it| it.into_string().unwrap()).collect();
        assert_eq!(ordered.join(" "), want);
    }

    #[test]
    fn addresses_mean_the_same_on_both_sides_of_a_subcommand() {
        check("triptych --head http://h nodes --json", "triptych nodes --head http://h --json");
        check("triptych --head=h --profile p nodes", "triptych nodes --head=h --profile p");
        check("triptych --head h function run hello", "triptych function run --head h hello");
        check("triptych --datasets d datasets list", "triptych datasets list --datasets d");
        for unchanged in [
            "triptych",
            "triptych nodes --head h",
            "triptych --head h",
            "triptych --head h --theme dark",
            "triptych --head h node head",
            "triptych --head",
        ] {
            check(unchanged, unchanged);
        }
    }
}
