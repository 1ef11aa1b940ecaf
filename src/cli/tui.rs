//! `triptych tui`: opens the screen.

pub(super) mod user_files;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs};

use ::tui::app::Start;
use ::tui::keymap::{Keymap, defaults_text};
use ::tui::profiles::{KeyPlace, NO_PROFILE, Opened, Profile as Named, ProfileStore, Profiles};
use ::tui::state::session;
use ::tui::theme::custom::{self, CustomTheme};
use ::tui::theme::depth::Depth;
use ::tui::theme::{self};
use ::tui::time_zone::TimeZone;
use ::tui::widget::symbols::Symbols;
use ::tui::{RunError, TuiOptions, UserFiles};
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use clap::Args;
use model::key::ApiKey;
use stack::data_dir::project_dirs;
use stack::local::{Addresses, LocalError};
use stack::processes::{Processes, ProcessesOptions};
use task::clock::Clock;
use tracing::Level;

use crate::cli::config::{self, AddressFlags, ChosenProfile, Profile, ScreenOptions};
use crate::cli::own_files::OwnFiles;
use crate::cli::secret::Keys;
use crate::cli::watch::RULES_FILE;
use crate::cli::{log, output};

/// Name of the file of presets in the configuration directory.
const PRESETS_FILE: &str = "presets.json";

/// Flags of the screen.
#[derive(Debug, Args)]
pub(crate) struct TuiCommand {
    #[command(flatten)]
    addresses: AddressFlags,
    /// Theme: auto, dark, light, cvd (color-blind), high-contrast, mono, ansi16, or a theme of your
    /// own; auto, the default, queries the terminal for its background
    #[arg(long, env = "TRIPTYCH_THEME", value_name = "NAME")]
    theme: Option<String>,
    /// Symbols of charts and marks: braille (the default), blocks or ascii, depending on the
    /// terminal's font; see --glyphs
    #[arg(long, env = "TRIPTYCH_SYMBOLS", value_name = "NAME")]
    symbols: Option<Symbols>,
    /// Time zone of the times shown: UTC (the default), local, or a name such as Europe/Berlin
    #[arg(long, env = "TRIPTYCH_TIME_ZONE", value_name = "NAME")]
    time_zone: Option<TimeZone>,
    #[command(flatten)]
    print: PrintFlags,
    /// Do not query the terminal; for terminals that show the query as text
    #[arg(long)]
    no_probe: bool,
    /// Open without the state of the last session, and do not save the state of this session
    #[arg(long)]
    forget: bool,
    /// Do not capture the mouse
    #[arg(long)]
    no_mouse: bool,
    /// Record what the screen shows to a new file in the format asciicast v2, which `asciinema play`
    /// shows; ends at 100 MB
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Panic with this message when a key is pressed on the Logs screen; only in builds for tests
    #[cfg(debug_assertions)]
    #[arg(long, hide = true, value_name = "MESSAGE")]
    break_in: Option<String>,
    /// Directory of the local stack's state [default: the platform's data directory]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Value of `--theme` that selects a theme by the background color of the terminal.
const AUTO: &str = "auto";

/// The user's settings of the screen, from flags and files.
struct ScreenSettings {
    keys: Keymap,
    themes: Vec<&'static CustomTheme>,
    /// Errors in files of themes. None of these themes is in use.
    theme_faults: Vec<String>,
    theme: theme::InitialTheme,
    options: ScreenOptions,
}

impl ScreenSettings {
    /// Reads the configuration file and the files of keys and themes. Chooses the theme called `flag`,
    /// or else the configured theme.
    fn read(flag: Option<String>) -> anyhow::Result<Self> {
        let options = config::screen()?;
        let folder = project_dirs().ok().map(|folders| folders.config_dir().to_owned());
        let keys = folder.as_deref().map(user_files::keys).transpose()?.unwrap_or_default();
        let user_files::Themes { themes, faults } =
            folder.as_deref().map(user_files::themes).transpose()?.unwrap_or_default();
        let flagged = flag.map(|name| (name, "--theme".to_owned()));
        let configured =
            || Some((options.theme.clone()?.into_inner(), options.theme_place.clone()));
        let theme = match flagged.or_else(configured) {
            None => theme::InitialTheme::Session,
            Some((name, _)) if name == AUTO => theme::InitialTheme::Given(None),
            Some((name, place)) => {
                theme::InitialTheme::Given(Some(find_theme(&name, &place, &themes, &faults)?))
            }
        };
        let theme_faults = faults.into_iter().map(|fault| fault.why).collect();
        Ok(Self { keys, themes, theme_faults, theme, options })
    }
}

/// Checks the files that configure the screen.
///
/// # Errors
/// If a setting is invalid.
pub(super) fn check_settings() -> anyhow::Result<()> {
    ScreenSettings::read(None)?.theme_faults.pop().map_or(Ok(()), |fault| bail!("{fault}"))
}

/// Returns the theme called `name`. Errors name `place`, the flag or the line of a file with that name.
///
/// # Errors
/// If the theme does not exist, or its file is invalid.
fn find_theme(
    name: &str,
    place: &str,
    themes: &[&'static CustomTheme],
    faults: &[user_files::ThemeFault],
) -> anyhow::Result<theme::Name> {
    if let Some(fault) = faults.iter().find(|fault| fault.name == name) {
        bail!("{}", fault.why);
    }
    theme::Name::among(name, themes).with_context(|| {
        let all =
            theme::Name::ALL.into_iter().chain(themes.iter().map(|it| theme::Name::Custom(it)));
        let all: Vec<String> = all.map(|name| name.to_string()).collect();
        let all = all.join(", ");
        format!("unknown theme `{name}` in {place}, expected {AUTO}, {all}")
    })
}

/// Opens the screen and returns when it is closed.
///
/// # Errors
/// If the configuration is invalid, or there is no terminal.
pub(crate) async fn run(command: TuiCommand) -> anyhow::Result<()> {
    if command.print.print()? {
        return Ok(());
    }
    let term = env::var("TERM").unwrap_or_default();
    if term == "dumb" {
        return Err(RunError::NoCursor.into());
    }
    let settings = ScreenSettings::read(command.theme)?;
    let session = state_path("session.json").filter(|_| !command.forget);
    let last = session.as_deref().and_then(|path| fs::read_to_string(path).ok());
    let (chosen, mut profiles) =
        config::choose_profile(command.addresses, last.as_deref().and_then(session::profile))?;
    let listed = listed(&profiles);
    let given = chosen.as_ref().filter(|chosen| chosen.name.is_none());
    let given = given.map(|chosen| addresses(chosen.profile.clone()));
    let (start, current) = choose_start(chosen, &mut profiles)?;
    let key_place = matches!(start, Some(Start::Connect(_))).then_some(KeyPlace::Environment);
    let keeper = Keys::of_user().ok().map(|keys| Box::new(ProfileOpener::new(profiles, keys)) as _);
    // The log is written to a file, since the screen uses the terminal. Without a home directory there
    // is no log.
    let log_folder = state_path("log");
    let logging =
        log_folder.as_deref().map(|folder| log::to_folder(folder, Level::INFO)).transpose()?;
    let options = TuiOptions {
        start: start.unwrap_or(Start::Local),
        local: Box::new(local_processes(command.data_dir)),
        files: UserFiles { presets: config_file(PRESETS_FILE), rules: config_file(RULES_FILE) },
        keeper,
        profiles: Profiles { list: listed, current, given, key_place, ..Profiles::default() },
        session,
        theme: settings.theme,
        custom_themes: settings.themes,
        theme_faults: settings.theme_faults,
        keys: settings.keys,
        symbols: command
            .symbols
            .or(settings.options.symbols)
            .unwrap_or_else(|| Symbols::of_terminal(&term)),
        asks_background: !command.no_probe && settings.options.has_probe.unwrap_or(true),
        depth: Depth::detect(|name| env::var(name).unwrap_or_default()),
        has_mouse: !command.no_mouse
            && settings
                .options
                .has_mouse
                .or_else(|| last.as_deref().and_then(session::has_mouse))
                .unwrap_or(true),
        is_far: env::var_os("SSH_TTY").is_some_and(|terminal| !terminal.is_empty()),
        time_zone: command.time_zone.or(settings.options.time_zone).unwrap_or(TimeZone::UTC),
        clock: Clock::system(),
        record: command.record,
        reports: log_folder,
        #[cfg(debug_assertions)]
        fault: command.break_in,
    };
    Box::pin(::tui::run(options)).await?;
    drop(logging);
    Ok(())
}

/// Returns how the screen starts, and the name of the profile in use. Both are `None` for the local
/// stack. Also adds the chosen addresses to `profiles`, under [`NO_PROFILE`] if they are not from a
/// profile.
///
/// If the environment contains a key, the screen connects immediately. Otherwise it opens the profile
/// after the first frame, since the keyring can be slow.
fn choose_start(
    chosen: Option<ChosenProfile>,
    profiles: &mut BTreeMap<String, Profile>,
) -> anyhow::Result<(Option<Start>, Option<String>)> {
    let Some(ChosenProfile { name, profile }) = chosen else { return Ok((None, None)) };
    let mut addresses = addresses(profile.clone());
    addresses.head_token = config::head_token()?;
    addresses.api_key = config::api_key()?;
    let opened = name.clone().unwrap_or_else(|| NO_PROFILE.to_owned());
    profiles.insert(opened.clone(), profile);
    let start = match addresses.api_key {
        Some(_) => Start::Connect(addresses),
        None => Start::Profile(opened),
    };
    Ok((Some(start), name))
}

/// Returns the processes of the local stack. Their state is in `data_dir`, or else in a directory of
/// the user that no other stack uses.
fn local_processes(data_dir: Option<PathBuf>) -> Processes {
    let options = ProcessesOptions {
        data_dir,
        // An invalid token is ignored here, since the head reports it.
        head_token: config::head_token().ok().flatten(),
    };
    Processes::new(options, Arc::new(OwnFiles))
}

/// Returns the path of the file `name` in the configuration directory, or `None` if the user has no
/// home directory.
fn config_file(name: &str) -> Option<PathBuf> {
    Some(project_dirs().ok()?.config_dir().join(name))
}

/// Returns the path of `name` in the directory of state, or `None` if the user has no home directory.
fn state_path(name: &str) -> Option<PathBuf> {
    let folders = project_dirs().ok()?;
    Some(folders.state_dir().unwrap_or_else(|| folders.data_local_dir()).join(name))
}

/// Opens profiles for the screen: looks up their addresses and API keys.
struct ProfileOpener {
    profiles: BTreeMap<String, Profile>,
    keys: Keys,
}

impl ProfileOpener {
    const fn new(profiles: BTreeMap<String, Profile>, keys: Keys) -> Self {
        Self { profiles, keys }
    }

    async fn try_open(&self, name: &str) -> anyhow::Result<Opened> {
        let profile = self.profiles.get(name).context("it is not in the configuration file")?;
        let head_token = config::head_token()?;
        let named = name.to_owned();
        let found = self.keys.on_a_thread(move |keys| keys.find(&named)).await?;
        let key_place = found.as_ref().map(|found| found.place);
        let api_key = found.map(|found| found.key);
        let addresses = Addresses { head_token, api_key, ..addresses(profile.clone()) };
        Ok(Opened { addresses, key_place })
    }
}

/// Returns the addresses of a profile, without a key.
fn addresses(profile: Profile) -> Addresses {
    let Profile { heads, datasets, inference } = profile;
    Addresses { heads, datasets, inference, ..Addresses::default() }
}

/// Converts profiles to the list that the screen shows.
fn listed(profiles: &BTreeMap<String, Profile>) -> Vec<Named> {
    let named = |(name, profile): (&String, &Profile)| Named {
        name: name.clone(),
        addresses: addresses(profile.clone()),
    };
    profiles.iter().map(named).collect()
}

#[async_trait]
impl ProfileStore for ProfileOpener {
    async fn open(&self, name: &str) -> Result<Opened, LocalError> {
        let failed = || format!("open profile {name}");
        self.try_open(name).await.map_err(|error| profile_error(failed(), error))
    }

    async fn keep_key(&self, name: &str, key: &ApiKey) -> Result<KeyPlace, LocalError> {
        let (named, key) = (name.to_owned(), key.clone());
        let stored = self.keys.on_a_thread(move |keys| keys.store(&named, &key)).await;
        let failed = || format!("store the key of {name}");
        let stored = stored.map_err(|error| profile_error(failed(), error))?;
        if let Some(note) = stored.note {
            tracing::info!("the key of {name} is in a file: {note}");
        }
        Ok(stored.place)
    }

    async fn forget_key(&self, name: &str) -> Result<bool, LocalError> {
        let named = name.to_owned();
        let removed = self.keys.on_a_thread(move |keys| keys.forget(&named)).await;
        let failed = || format!("remove the key of {name}");
        removed.map_err(|error| profile_error(failed(), error))
    }
}

fn profile_error(what: String, error: anyhow::Error) -> LocalError {
    LocalError { what, source: error.into() }
}

/// A configuration file with all settings, commented out.
const CONFIG: &str = include_str!("../../assets/config.toml");

/// Samples that are printed in every set of symbols.
const CARD: [(&str, &str); 5] = [
    ("borders ", "╭─────┬─────╮ │ ├─────┼─────┤ ╰─────┴─────╯"),
    ("dots    ", "⣀⣀⡠⠤⠒⠊⠉⠉⠑⠢⢄⣀⡠⠔⠊⠉⠒⢄⡀ ⣿⣷⣶⣦⣤⣄⣀"),
    ("blocks  ", "▁▂▃▄▅▆▇█ ▏▎▍▌▋▊▉█ ░▒▓"),
    ("candles ", "╷ █ ┃ ▒ ╵ │"),
    ("marks   ", "● ○ ◆ ◇ ▲ ▼ ▸ ◂ ✓ ✗ ★ …"),
];

/// Flags to print something instead of opening the screen.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct PrintFlags {
    /// Print a configuration file with all settings
    #[arg(long)]
    print_config: bool,
    /// Print all keys, as in keymap.toml
    #[arg(long)]
    print_keys: bool,
    /// Print the colors of a theme, in the format of the files in the directory `themes`
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "dark")]
    print_theme: Option<theme::Name>,
    /// Print the symbols of charts and marks, to see which of them the font has
    #[arg(long)]
    glyphs: bool,
}

impl PrintFlags {
    /// Prints what the flags request. Returns false if they request no output.
    ///
    /// # Errors
    /// If standard output cannot be written, or the theme uses the terminal's colors and has none of
    /// its own.
    fn print(&self) -> anyhow::Result<bool> {
        let text = if self.print_config {
            CONFIG.to_owned()
        } else if self.print_keys {
            defaults_text()
        } else if let Some(name) = self.print_theme {
            custom::text_of(name)
                .with_context(|| format!("theme {name} has only the terminal's own colors"))?
        } else if self.glyphs {
            symbols_card()
        } else {
            return Ok(false);
        };
        output::write(text.as_bytes())?;
        Ok(true)
    }
}

/// Formats the samples in each set of symbols.
fn symbols_card() -> String {
    let mut text = String::from(
        "Choose the first set that looks right: no boxes, no gaps, borders that meet.\n\
         In config.toml: [screen] symbols = \"…\"; or --symbols …\n",
    );
    for symbols in [Symbols::Braille, Symbols::Blocks, Symbols::Ascii] {
        text.extend(["\n", &symbols.to_string(), "\n"]);
        for (what, sample) in CARD {
            text.extend(["  ", what, &symbols.text(sample), "\n"]);
        }
        // The screen names keys for which ASCII has no symbol.
        let keys = match symbols {
            Symbols::Ascii => "enter tab shift-tab backspace up down left right",
            Symbols::Braille | Symbols::Blocks => "⏎ ⇥ ⇧ ⌫ ↑ ↓ ← →",
        };
        text.extend(["  keys    ", keys, "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_configuration_files_are_valid() {
        let all: String = CONFIG
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.starts_with('[') || rest.contains(" = ") => format!("{rest}\n"),
                _ => String::new(),
            })
            .collect();
        config::check(&all).unwrap();
        toml::from_str::<toml::Table>(&defaults_text()).unwrap();
    }

    #[test]
    fn ascii_section_of_the_symbol_card_has_only_ascii_symbols() {
        let card = symbols_card();
        let (_, ascii) = card.split_once("\nascii\n").unwrap();
        assert!(ascii.is_ascii(), "{ascii}");
    }
}
