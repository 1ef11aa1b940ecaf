//! What the help of every command ends with: examples and exit codes.

use clap::Command;

/// What a process's exit code says where a command does not say more.
const EXIT_CODES: &str = "Exit codes: 0 all is well; 1 it failed, and standard error says why; 2 \
     the command line is wrong.";

/// How the text of a command's own begins that has exit codes.
const EXIT_CODES_START: &str = "Exit codes:";

/// Examples of the commands that have none beside their flags: the command, and its lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("tui", "triptych tui --theme light          the screen in other colors, this time"),
    (
        "up",
        "triptych up                         the local stack; ^C ends it\n  triptych up --json > stack.json     for scripts: one line once everything answers",
    ),
    ("runtime", "triptych runtime module.wasm         runs a module as bls-runtime does"),
    (
        "inference",
        "triptych inference show 1           the newest bundle of topic 1\n  triptych inference serve --head URL --datasets URL/api",
    ),
    (
        "completions",
        "triptych completions bash > ~/.local/share/bash-completion/completions/triptych",
    ),
    (
        "man",
        "triptych man | man -l -             every page, one after another\n  triptych man --output ~/.local/share/man/man1",
    ),
    ("datasets create", "triptych datasets create btcusd --column close:float"),
    ("datasets delete", "triptych datasets delete btcusd --start 2026-01-01 --end 2026-01-02"),
    ("datasets list", "triptych datasets list --search btc"),
    ("datasets rows", "triptych datasets rows btcusd --resolution 5m --start 2026-01-01"),
    ("datasets serve", "triptych datasets serve --demo      live data, on 127.0.0.1:8081"),
    ("datasets show", "triptych datasets show btcusd"),
    ("datasets tags", "triptych datasets tags --acquire public"),
    ("function cancel", "triptych function cancel REQUEST"),
    ("function events", "triptych function events --json | jq .kind"),
    ("function list", "triptych function list --json"),
    ("function remove", "triptych function remove CID"),
    ("function result", "triptych function result REQUEST --wait"),
    ("function show", "triptych function show CID"),
    ("inference leaderboard", "triptych inference leaderboard 1"),
    ("inference losses", "triptych inference losses reports.json"),
    ("inference regrets", "triptych inference regrets losses.json"),
    (
        "inference serve",
        "triptych inference serve --head http://127.0.0.1:8080 --datasets http://127.0.0.1:8081/api",
    ),
    ("inference show", "triptych inference show 1"),
    ("inference signer", "triptych inference signer"),
    ("inference topics", "triptych inference topics list"),
    ("inference topics allow", "triptych inference topics allow 1 ADDRESS"),
    ("inference topics delete", "triptych inference topics delete 1"),
    ("inference topics disallow", "triptych inference topics disallow 1 ADDRESS"),
    ("inference topics health", "triptych inference topics health 1"),
    ("inference topics list", "triptych inference topics list"),
    ("inference topics pause", "triptych inference topics pause 1"),
    ("inference topics relearn", "triptych inference topics relearn 1 --from 1200"),
    ("inference topics resume", "triptych inference topics resume 1"),
    ("inference topics update", "triptych inference topics update 1 changes.json"),
    ("keys account add", "triptych keys account add ada@example.org"),
    ("keys account list", "triptych keys account list"),
    ("keys account password", "triptych keys account password ada@example.org"),
    ("keys account remove", "triptych keys account remove ada@example.org --yes"),
    (
        "keys create",
        "triptych keys create me --store      a key for your own commands\n  KEY=$(triptych keys create my-bot)  a key for a program, printed this once",
    ),
    ("keys forget", "triptych keys forget --profile far"),
    ("keys list", "triptych keys list"),
    ("keys rename", "triptych keys rename 3 my-bot"),
    ("keys renew", "triptych keys renew 3"),
    ("keys revoke", "triptych keys revoke 3"),
    ("keys sign-up", "triptych keys sign-up closed"),
    ("keys where", "triptych keys where --profile far"),
];

/// Adds to `command` and all below it the examples and the exit codes that their help lacks.
pub(super) fn with_endings(command: Command) -> Command {
    with_endings_at(command, "")
}

fn with_endings_at(command: Command, path: &str) -> Command {
    let own = command.get_after_help().map(ToString::to_string);
    let listed = EXAMPLES.iter().find(|(name, _)| *name == path);
    let mut text = match (own, listed) {
        (Some(own), _) => own,
        (None, Some((_, lines))) => format!("Examples:\n  {lines}"),
        (None, None) => String::new(),
    };
    if !text.contains(EXIT_CODES_START) {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        text = format!("{text}{gap}{EXIT_CODES}");
    }
    command.after_help(text).mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name()).trim_start().to_owned();
        with_endings_at(below, &path)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The commands from `command` on whose help lacks an example or exit codes.
    fn lacking(command: &Command, path: &str) -> Vec<String> {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let is_whole = text.contains("triptych ") && text.contains(EXIT_CODES_START);
        let own = (!is_whole).then(|| path.to_owned()).into_iter();
        let below = command.get_subcommands();
        own.chain(below.flat_map(|it| lacking(it, &format!("{path} {}", it.get_name())))).collect()
    }

    #[test]
    fn every_command_has_an_example_and_tells_its_exit_codes() {
        let command = with_endings(crate::cli::Cli::command());
        assert_eq!(lacking(&command, ""), [] as [String; 0]);
    }
}
