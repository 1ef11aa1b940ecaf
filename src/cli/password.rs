//! Asking for a password: without showing it on a terminal, or from the first line of what is piped
//! in. Never from the command line, which everyone on the machine can read.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use accounts::Password;
use anyhow::{Context as _, bail};
use crossterm::{
    event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read},
    terminal::{disable_raw_mode, enable_raw_mode},
};

/// The most that is read from a pipe: more than the longest password.
const PIPED_BYTES_MAX: u64 = 4096;

/// Asks for a new password, on a terminal twice.
///
/// # Errors
/// If it is too short, the two differ, or there is none.
pub(crate) fn ask_new() -> anyhow::Result<Password> {
    if !io::stdin().is_terminal() {
        return parsed(&piped(io::stdin())?);
    }
    let first = typed("New password: ")?;
    let password = parsed(&first)?;
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

fn parsed(text: &str) -> anyhow::Result<Password> {
    Ok(text.parse::<Password>()?)
}

/// The first line of what is piped in.
fn piped(input: impl io::Read) -> anyhow::Result<String> {
    let mut text = String::new();
    input.take(PIPED_BYTES_MAX).read_to_string(&mut text).context("read standard input")?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A line typed on the terminal, which does not show it.
fn typed(prompt: &str) -> anyhow::Result<String> {
    let mut err = io::stderr();
    write!(err, "{prompt}").and_then(|()| err.flush()).context("ask for the password")?;
    let raw = Raw::start()?;
    let mut text = String::new();
    let answer = loop {
        let Event::Key(key) = read().context("read the terminal")? else { continue };
        match pressed(key, &mut text) {
            Pressed::More => {}
            Pressed::Done => break Ok(text),
            Pressed::Stop => break Err(anyhow::anyhow!("take the password: it was called off")),
        }
    };
    drop(raw);
    writeln!(err).context("ask for the password")?;
    answer
}

/// What a key did.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    More,
    Done,
    Stop,
}

fn pressed(key: KeyEvent, text: &mut String) -> Pressed {
    if key.kind == KeyEventKind::Release {
        return Pressed::More;
    }
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Enter => return Pressed::Done,
        KeyCode::Esc => return Pressed::Stop,
        KeyCode::Char('c' | 'd') if has_control => return Pressed::Stop,
        KeyCode::Char('u') if has_control => text.clear(),
        KeyCode::Char(letter) if !has_control => text.push(letter),
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
    Pressed::More
}

/// A terminal that passes keys on and shows nothing, until this is dropped.
struct Raw;

impl Raw {
    fn start() -> anyhow::Result<Self> {
        enable_raw_mode().context("keep the terminal from showing the password")?;
        Ok(Self)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Where that fails there is no terminal any more.
        drop(disable_raw_mode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_line() {
        let mut text = String::new();
        let control = KeyModifiers::CONTROL;
        for (code, modifiers, want) in [
            (KeyCode::Char('x'), KeyModifiers::NONE, "x"),
            (KeyCode::Char('u'), control, ""),
            (KeyCode::Char('é'), KeyModifiers::NONE, "é"),
            (KeyCode::Char('A'), KeyModifiers::SHIFT, "éA"),
            (KeyCode::Backspace, KeyModifiers::NONE, "é"),
            (KeyCode::Left, KeyModifiers::NONE, "é"),
        ] {
            assert_eq!(pressed(KeyEvent::new(code, modifiers), &mut text), Pressed::More);
            assert_eq!(text, want);
        }
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(pressed(enter, &mut text), Pressed::Done);
        let stop = KeyEvent::new(KeyCode::Char('c'), control);
        assert_eq!(pressed(stop, &mut text), Pressed::Stop);
    }

    #[test]
    fn a_piped_password_is_the_first_line() {
        for (input, want) in [("one\ntwo\n", "one"), ("one\r\n", "one"), ("one", "one"), ("", "")] {
            assert_eq!(piped(input.as_bytes()).unwrap(), want);
        }
    }
}
