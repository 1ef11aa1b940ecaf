//! Examples and exit codes at the end of every command's help.

use clap::Command;

/// Exit codes of commands without special exit codes.
const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure, with the reason on standard error; 2 invalid \
     command line.";

/// Beginning of the exit codes in a command's own text at the end of its help. If the text contains
/// this, no exit codes are added.
const EXIT_CODES_START: &str = "Exit codes:";

/// Examples of all commands. Each section begins with a line of `===` and the command.
const ENDINGS: &str = include_str!("../../assets/help.txt");

/// Adds examples and exit codes to the help of `command` and its subcommands, unless the help text
/// already contains these.
pub(super) fn with_endings(command: Command) -> Command {
    let path = command.get_name().to_owned();
    with_endings_at(command, &path)
}

fn with_endings_at(command: Command, path: &str) -> Command {
    let own = command.get_after_help().map(ToString::to_string);
    let listed =
        ENDINGS.split("=== ").find_map(|section| section.strip_prefix(path)?.strip_prefix('\n'));
    let mut text = own.unwrap_or_else(|| listed.unwrap_or_default().trim_end().to_owned());
    if !text.contains(EXIT_CODES_START) {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        text = format!("{text}{gap}{EXIT_CODES}");
    }
    command.after_help(text).mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        with_endings_at(below, &path)
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::cli::shell::Guide;
    use crate::cli::{Cli, NODE, node};

    /// Id of a peer, which replaces placeholders in examples.
    const PEER: &str = "12D3KooWRp3AVk7qtc2Av6xiqgAza1ZouksQaYcS2cvN94kHSCoa";

    /// Returns the command lines in a text of examples. A command line begins with `triptych ` and ends
    /// before a comment, a pipe or the end of the line.
    fn command_lines(text: &str) -> Vec<String> {
        let text = text.replace("\\\n      ", "");
        let mut found = Vec::new();
        for line in text.lines().filter(|line| line.starts_with("  ")) {
            let mut rest = line.trim_start();
            while let Some(at) = rest.find("triptych ") {
                let (before, command) = rest.split_at(at);
                let is_program = before.is_empty() || before.ends_with([' ', '(']);
                let ends = ["  ", " | ", " > ", ";", ")"].into_iter();
                let parts = ends.filter_map(|end| command.split_once(end));
                let is_quoted = |part: &str| part.matches('\'').count() % 2 == 1;
                let parts = parts.filter(|(part, _)| !is_quoted(part));
                let (part, after) = parts.min_by_key(|(it, _)| it.len()).unwrap_or((command, ""));
                if is_program {
                    found.push(part.trim().to_owned());
                }
                rest = after;
            }
        }
        found
    }

    /// Splits a command line into words as a shell does, and replaces placeholders by valid values.
    fn words(line: &str) -> Vec<String> {
        const FUNCTION: &str = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy";
        const ACTOR: &str = "allo1w508d6qejxtdg4y5r3zarvary0c5xw7k5wdecp";
        let (mut words, mut is_quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '\'' | '"' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                c => words.last_mut().unwrap().push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        let with_value = |word: String| match word.as_str() {
            "CID" => FUNCTION.to_owned(),
            "PEER_ID" => PEER.to_owned(),
            "ADDRESS" => ACTOR.to_owned(),
            _ => word
                .replace("URL", "http://127.0.0.1:8080")
                .replace("MULTIADDRESS", &format!("/ip4/127.0.0.1/tcp/9527/p2p/{PEER}")),
        };
        words.into_iter().map(with_value).collect()
    }

    /// Parses every command line in the help of `command` and of its subcommands. Adds errors to
    /// `errors` and the number of command lines to `n_lines`.
    fn parse_examples(command: &Command, errors: &mut Vec<String>, n_lines: &mut usize) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in command_lines(&text) {
            *n_lines += 1;
            if let Err(error) = parse(&words(&line)) {
                errors.push(format!("{line}\n{error}"));
            }
        }
        for below in command.get_subcommands() {
            parse_examples(below, errors, n_lines);
        }
    }

    fn parse(words: &[String]) -> Result<Cli, clap::Error> {
        let command = Cli::command().mut_subcommand(NODE, node::layers::with_switches);
        Cli::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn every_example_is_parsed() {
        let (mut errors, mut n_lines) = (Vec::new(), 0);
        parse_examples(&with_endings(Cli::command()), &mut errors, &mut n_lines);
        assert!(errors.is_empty(), "{}", errors.join("\n"));
        assert!(n_lines > 100, "found {n_lines} examples");
    }

    /// Returns the command lines of a systemd unit. Its variable `$OPTIONS` is replaced by the example
    /// in the line `#OPTIONS=` of `options`, the environment file of the unit.
    fn unit_lines(unit: &str, options: &str) -> Vec<String> {
        let options = options.lines().find_map(|line| line.strip_prefix("#OPTIONS=")).unwrap();
        let text = unit.replace("$OPTIONS", options).replace("PEER_ID", PEER);
        let text = text.replace("ExecStart", "  ExecStart").replace("=/usr/bin/", " ");
        command_lines(&text.replace(" /usr/bin/", " "))
    }

    #[test]
    fn every_command_of_the_guide_is_parsed() {
        let guide = Guide::Operate.text().replace("runuser -u triptych -- ", "");
        let is_command = |line: &&str| line.starts_with("    triptych ");
        let text: Vec<_> = guide.lines().filter(is_command).collect();
        let lines = command_lines(&text.join("\n"));
        assert!(lines.len() >= 6, "{lines:#?}");
        for line in lines {
            assert!(parse(&words(&line)).is_ok(), "{line}");
        }
    }

    #[test]
    fn every_command_of_systemd_units_is_parsed() {
        macro_rules! unit {
            ($name:literal) => {
                unit_lines(
                    include_str!(concat!(
                        "../../assets/packaging/systemd/triptych-",
                        $name,
                        ".service"
                    )),
                    include_str!(concat!("../../assets/packaging/etc/", $name, ".env")),
                )
            };
        }
        let units = [unit!("head"), unit!("worker"), unit!("datasets"), unit!("inference")];
        let lines = units.concat();
        assert_eq!(lines.len(), 7, "{lines:#?}");
        for line in lines {
            let mut words = words(&line);
            if line.starts_with("triptych inference serve") {
                // The unit passes both addresses, which are required, as environment variables.
                words.extend(["--head=http://h", "--datasets=http://d/api"].map(str::to_owned));
            }
            assert!(parse(&words).is_ok(), "{line}");
        }
    }

    #[test]
    fn invalid_example_is_rejected() {
        let text = "Examples:\n  X=$(triptych keys create a  --b)\n  triptych nodes --evry 5 | cat";
        let lines = command_lines(text);
        assert_eq!(lines, ["triptych keys create a", "triptych nodes --evry 5"]);
        assert!(parse(&words(&lines[0])).is_ok() && parse(&words(&lines[1])).is_err());
    }

    /// Returns the paths of `command` and its subcommands that lack an example or exit codes.
    fn incomplete(command: &Command, path: &str) -> Vec<String> {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let is_complete = text.contains("triptych ") && text.contains(EXIT_CODES_START);
        let own = (!is_complete).then(|| path.to_owned()).into_iter();
        let below = command.get_subcommands();
        own.chain(below.flat_map(|it| incomplete(it, &format!("{path} {}", it.get_name()))))
            .collect()
    }

    #[test]
    fn every_command_has_an_example_and_exit_codes() {
        let command = with_endings(Cli::command());
        assert_eq!(incomplete(&command, ""), [] as [String; 0]);
    }
}
