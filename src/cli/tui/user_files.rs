//! Keys and themes that users define in files next to the configuration file. Errors list every invalid
//! line.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::{fs, io};

use ::tui::keymap::Keymap;
use ::tui::theme::custom::CustomTheme;
use ::tui::user_file::{Fault, Setting};
use anyhow::{Context as _, bail};
use model::text::line_of;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::cli::parse::read_optional;

/// Name of the file of keys in the configuration directory.
const KEYS_FILE: &str = "keymap.toml";

/// Name of the directory of themes in the configuration directory.
const THEMES_FOLDER: &str = "themes";

/// Returns the default keys, overridden by the file of keys in `folder` if there is one.
///
/// # Errors
/// If the file cannot be read or is invalid. The error lists every fault with its line.
pub(super) fn keys(folder: &Path) -> anyhow::Result<Keymap> {
    let path = folder.join(KEYS_FILE);
    let Some(text) = read_optional(&path)? else { return Ok(Keymap::default()) };
    let entries = entries(&path, &text)?;
    Keymap::with_overrides(&entries)
        .or_else(|faults| reject(&path, &faults, "`triptych tui --print-keys` prints all keys"))
}

/// Themes in the directory of themes.
#[derive(Debug, Default)]
pub(super) struct Themes {
    /// Valid themes, in the order of their names. They are never freed, so they are `'static`.
    pub(super) themes: Vec<&'static CustomTheme>,
    /// Files that are not valid themes.
    pub(super) faults: Vec<ThemeFault>,
}

/// An invalid file of a theme.
#[derive(Debug)]
pub(super) struct ThemeFault {
    /// Name of the theme.
    pub(super) name: String,
    /// Text of all faults, with their lines.
    pub(super) why: String,
}

/// Reads the themes in the directory of themes in `folder`.
///
/// # Errors
/// If the folder cannot be listed.
pub(super) fn themes(folder: &Path) -> anyhow::Result<Themes> {
    let mut all = Themes::default();
    for (name, path) in theme_files(folder)? {
        match theme(&path, &name) {
            Ok(own) => all.themes.push(own),
            Err(error) => all.faults.push(ThemeFault { name, why: format!("{error:#}") }),
        }
    }
    Ok(all)
}

/// Lists the name and path of each theme file in `folder`, by name.
///
/// # Errors
/// If the folder cannot be listed.
pub(in crate::cli) fn theme_files(folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let folder = folder.join(THEMES_FOLDER);
    let listed = match fs::read_dir(&folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot list {}", folder.display()));
        }
    };
    let paths = listed.filter_map(|entry| Some(entry.ok()?.path()));
    let themes = paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut files: Vec<_> = themes.map(|path| (name(&path), path)).collect();
    files.sort();
    Ok(files)
}

fn theme(path: &Path, name: &str) -> anyhow::Result<&'static CustomTheme> {
    if name.parse::<::tui::theme::Name>().is_ok() || name == super::AUTO {
        bail!("there is another theme `{name}`\nhint: rename {}", path.display());
    }
    let text = read_optional(path)?.unwrap_or_default();
    let entries = entries(path, &text)?;
    let own = CustomTheme::read(name, &entries)
        .or_else(|faults| reject(path, &faults, "`triptych tui --print-theme` prints all colors"));
    Ok(Box::leak(Box::new(own?)))
}

/// Returns all settings of a file, in the order of their lines. A value that is not a string is an
/// error.
fn entries(path: &Path, text: &str) -> anyhow::Result<Vec<Setting>> {
    let at = |line: usize, why: &dyn Display| format!("{}:{line}: {why}", path.display());
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_of(text, error.span().unwrap_or_default().start);
        anyhow::anyhow!(at(line, &error.message()))
    })?;
    let mut entries = Vec::new();
    let mut invalid = Vec::new();
    let mut add = |table: &str, name: &str, value: &Spanned<DeValue<'_>>| {
        let line = line_of(text, value.span().start);
        match value.get_ref().as_str() {
            Some(value) => entries.push(Setting {
                table: table.to_owned(),
                name: name.to_owned(),
                value: value.to_owned(),
                line,
            }),
            None => invalid.push(at(line, &format!("the value of `{name}` is not a string"))),
        }
    };
    for (name, value) in table.get_ref() {
        match value.get_ref() {
            DeValue::Table(inner) => {
                for (key, value) in inner {
                    add(name.get_ref(), key.get_ref(), value);
                }
            }
            _ => add("", name.get_ref(), value),
        }
    }
    if !invalid.is_empty() {
        bail!(invalid.join("\n"));
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

/// Returns an error with all `faults` of the file at `path`.
fn reject<T>(path: &Path, faults: &[Fault], hint: &str) -> anyhow::Result<T> {
    let line = |Fault { line, why }: &Fault| format!("{}:{line}: {why}", path.display());
    let lines: Vec<String> = faults.iter().map(line).collect();
    bail!("{}\nhint: {hint}", lines.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_keys_are_reported_by_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(keys(folder.path()).unwrap(), Keymap::default(), "no file");
        let write = |text: &str| fs::write(folder.path().join(KEYS_FILE), text).unwrap();
        write(
            "# mine\n[global]\n\"alt-t\" = \"themes\"\n\n[data]\n\"x\" = \"exprt\"\nw = \"zoom\"\n",
        );
        let error = keys(folder.path()).unwrap_err().to_string();
        assert!(error.contains("keymap.toml:6: [data] has no action `exprt`"), "{error}");
        assert!(error.contains("--print-keys") && !error.contains(":7:"), "{error}");
        write("[global]\n\"x\" = 3\n");
        let error = keys(folder.path()).unwrap_err().to_string();
        assert!(error.contains("keymap.toml:2: the value of `x`"), "{error}");
        write("[global]\nx = \"zoom\"\nx = \"help\"\n");
        let error = keys(folder.path()).unwrap_err().to_string();
        assert!(error.contains("keymap.toml:3: duplicate key"), "{error}");
        write("[global]\n\"alt-t\" = \"themes\"\n");
        assert_ne!(keys(folder.path()).unwrap(), Keymap::default());
    }

    #[test]
    fn invalid_themes_are_reported_by_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        assert!(themes(folder.path()).unwrap().themes.is_empty(), "no folder");
        let place = folder.path().join(THEMES_FOLDER);
        fs::create_dir(&place).unwrap();
        fs::write(place.join("dusk.toml"), "base = \"light\"\nfocus = \"#112233\"\n").unwrap();
        fs::write(place.join("notes.txt"), "no theme").unwrap();
        let read = themes(folder.path()).unwrap().themes;
        assert_eq!(read.iter().map(|own| own.name.as_str()).collect::<Vec<_>>(), ["dusk"]);
        fs::write(place.join("night.toml"), "\nfocus = \"#1122\"\n").unwrap();
        fs::write(place.join("dark.toml"), "").unwrap();
        let Themes { themes, faults } = themes(folder.path()).unwrap();
        assert_eq!(themes.len(), 1, "the others do not affect this one");
        let [dark, night] = faults.as_slice() else { panic!("{faults:?}") };
        assert!(night.why.contains("night.toml:2: `#1122` is not a color"), "{night:?}");
        assert!(dark.why.contains("another theme `dark`"), "{dark:?}");
        assert_eq!((dark.name.as_str(), night.name.as_str()), ("dark", "night"));
        assert!(super::super::find_theme("dusk", "--theme", &themes, &faults).is_ok());
        let refused = super::super::find_theme("night", "--theme", &themes, &faults).unwrap_err();
        assert!(refused.to_string().contains("night.toml:2"), "{refused}");
    }
}
