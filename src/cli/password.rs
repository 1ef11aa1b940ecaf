//! Asking for a password: without showing it on a terminal, or from the first line of what is piped
//! in. Never from the command line, which everyone on the machine can read.

use std::io::{self, IsTerminal as _, Read as _};

use accounts::{AccountName, Password};
use anyhow::{Context as _, bail};

/// The most that is read from a pipe: more than the longest password.
const PIPED_BYTES_MAX: u64 = 4096;

/// Asks for a new password, on a terminal twice.
///
/// # Errors
/// If it is too short or too common, the two differ, or there is none.
pub(crate) fn ask_new(name: &AccountName) -> anyhow::Result<Password> {
    if !io::stdin().is_terminal() {
        return Ok(Password::choose(name, &piped(io::stdin())?)?);
    }
    let first = typed("New password: ")?;
    let password = Password::choose(name, &first)?;
    if typed("The same again: ")? != first {
        bail!("take the password: the two differ");
    }
    Ok(password)
}

/// Asks for a secret: on a terminal without showing it, else the first line of what is piped in.
///
/// # Errors
/// If there is none, or it was called off.
pub(crate) fn secret(prompt: &str) -> anyhow::Result<String> {
    if io::stdin().is_terminal() { typed(prompt) } else { piped(io::stdin()) }
}

/// The first line of what is piped in.
fn piped(input: impl io::Read) -> anyhow::Result<String> {
    let mut text = String::new();
    input.take(PIPED_BYTES_MAX).read_to_string(&mut text).context("read standard input")?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A line typed on the terminal, which does not echo it.
fn typed(prompt: &str) -> anyhow::Result<String> {
    rpassword::prompt_password(prompt).context("read the password from the terminal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piped_password_is_the_first_line() {
        for (input, want) in [("one\ntwo\n", "one"), ("one\r\n", "one"), ("one", "one"), ("", "")] {
            assert_eq!(piped(input.as_bytes()).unwrap(), want);
        }
    }
}
