//! Input of passwords and keys: on a terminal without echo, or through a pipe. They cannot be
//! arguments, since every user of the machine can read the command line of a process.

use std::io::{self, IsTerminal as _, Read as _};

use accounts::{AccountName, Password};
use anyhow::{Context as _, bail};

/// Maximum number of bytes read from a pipe: more than the longest password.
const PIPED_BYTES_MAX: u64 = 4096;

/// Reads a new password. On a terminal the user types it twice.
///
/// # Errors
/// If the password is missing, too short or too common, or the second input differs from the first.
pub(super) fn read_new(name: &AccountName) -> anyhow::Result<Password> {
    if !io::stdin().is_terminal() {
        return Ok(Password::choose(name, &read_line(io::stdin())?)?);
    }
    let first = prompt("New password: ")?;
    let password = Password::choose(name, &first)?;
    if prompt("The same again: ")? != first {
        bail!("the passwords differ");
    }
    Ok(password)
}

/// Reads a secret: on a terminal without echo, otherwise the first line of standard input.
///
/// # Errors
/// If standard input or the terminal cannot be read.
pub(super) fn read_secret(prompt: &str) -> anyhow::Result<String> {
    if io::stdin().is_terminal() { self::prompt(prompt) } else { read_line(io::stdin()) }
}

fn read_line(input: impl io::Read) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = input.take(PIPED_BYTES_MAX).read_to_string(&mut text);
    read.context("cannot read standard input")?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn prompt(text: &str) -> anyhow::Result<String> {
    rpassword::prompt_password(text).context("cannot read from the terminal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_read_from_the_first_line_of_a_pipe() {
        for (input, want) in [("one\ntwo\n", "one"), ("one\r\n", "one"), ("one", "one"), ("", "")] {
            assert_eq!(read_line(input.as_bytes()).unwrap(), want);
        }
    }
}
