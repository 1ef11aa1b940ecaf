//! `triptych tui`: opens the screen.

mod print;
pub(super) mod user_files;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs};

use ::tui::app::Start;
use ::tui::keymap::Keymap;
use ::tui::profiles::{KeyPlace, NO_PROFILE, Profiles};
use ::tui::state::session;
use ::tui::theme::custom::CustomTheme;
use ::tui::theme::depth::{Depth, Hints};
use ::tui::theme::{self};
use ::tui::time_zone::TimeZone;
use ::tui::widget::symbols::Symbols;
use ::tui::{RunError, TuiOptions, UserFiles};
use anyhow::{Context as _, bail};
use clap::Args;
use stack::data_dir::project_dirs;
use stack::processes::{Processes, ProcessesOptions};
use task::clock::Clock;
use tracing::Level;

use self::print::PrintFlags;
use crate::cli::config::{self, AddressFlags, ChosenProfile, Profile, ScreenOptions};
use crate::cli::log;
use crate::cli::own_files::OwnFiles;
use crate::cli::profiles::{self, ProfileOpener};
use crate::cli::secret::Keys;
use crate::cli::watch::RULES_FILE;

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
    /// Do not query the terminal; for terminals that print the query
    #[arg(long)]
    no_probe: bool,
    /// Open without the state of the last session, and do not save the state of this session
    #[arg(long)]
    forget: bool,
    /// Do not capture the mouse
    #[arg(long)]
    no_mouse: bool,
    /// Panic with this message when a key is pressed on the Logs screen; only in builds for tests
    #[cfg(debug_assertions)]
    #[arg(long, hide = true, value_name = "MESSAGE")]
    break_in: Option<String>,
    /// Directory of the local stack's state [default: the platform's data directory]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Name of the theme that suits the terminal.
const AUTO: &str = "auto";

/// User settings of the screen.
struct ScreenSettings {
    keys: Keymap,
    themes: Vec<&'static CustomTheme>,
    /// Errors in files of themes that are not in use.
    theme_faults: Vec<String>,
    theme: theme::InitialTheme,
    options: ScreenOptions,
}

impl ScreenSettings {
    /// Reads the files of keys and themes. Finds the theme called `flag`, or else the configured theme.
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

/// Finds the theme called `name`. `place`, where that name was given, is for errors.
///
/// # Errors
/// If it does not exist, or its file is invalid.
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

/// Opens the screen. Returns when it is closed.
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
    let listed = profiles::listed(&profiles);
    let given = chosen.as_ref().filter(|chosen| chosen.name.is_none());
    let given = given.map(|chosen| profiles::addresses(chosen.profile.clone()));
    let (start, current) = choose_start(chosen, &mut profiles)?;
    let key_place = matches!(start, Some(Start::Connect(_))).then_some(KeyPlace::Environment);
    let keeper = Keys::of_user().ok().map(|keys| Box::new(ProfileOpener::new(profiles, keys)) as _);
    // The screen uses the terminal, so that its log goes to a file, or nowhere without a home
    // directory.
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
        depth: depth(),
        has_mouse: !command.no_mouse
            && settings
                .options
                .has_mouse
                .or_else(|| last.as_deref().and_then(session::has_mouse))
                .unwrap_or(true),
        is_far: env::var_os("SSH_TTY").is_some_and(|terminal| !terminal.is_empty()),
        time_zone: command.time_zone.or(settings.options.time_zone).unwrap_or(TimeZone::UTC),
        clock: Clock::system(),
        reports: log_folder,
        #[cfg(debug_assertions)]
        fault: command.break_in,
    };
    Box::pin(::tui::run(options)).await?;
    drop(logging);
    Ok(())
}

/// Returns the start of the screen and the name of its profile, `None` for the local stack. Addresses
/// without a profile are added to `profiles`.
///
/// With a key in the environment the services are called immediately. Otherwise the keyring may be slow,
/// so that the first frame does not wait for it.
fn choose_start(
    chosen: Option<ChosenProfile>,
    profiles: &mut BTreeMap<String, Profile>,
) -> anyhow::Result<(Option<Start>, Option<String>)> {
    let Some(ChosenProfile { name, profile }) = chosen else { return Ok((None, None)) };
    let mut addresses = profiles::addresses(profile.clone());
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

/// Returns the local stack, with its state in `data_dir`, or else in a free directory of the user.
fn local_processes(data_dir: Option<PathBuf>) -> Processes {
    let options = ProcessesOptions {
        data_dir,
        // A head reports an invalid token itself.
        head_token: config::head_token().ok().flatten(),
    };
    Processes::new(options, Arc::new(OwnFiles))
}

/// Returns the path of the file `name` in the configuration directory. `None` without a home directory.
fn config_file(name: &str) -> Option<PathBuf> {
    Some(project_dirs().ok()?.config_dir().join(name))
}

/// Returns the path of the state file `name`. `None` without a home directory.
fn state_path(name: &str) -> Option<PathBuf> {
    let folders = project_dirs().ok()?;
    Some(folders.state_dir().unwrap_or_else(|| folders.data_local_dir()).join(name))
}

/// Returns the color depth of the terminal, according to the environment.
fn depth() -> Depth {
    let value = |name| env::var(name).unwrap_or_default();
    Depth::detect(Hints {
        no_color: &value("NO_COLOR"),
        colorterm: &value("COLORTERM"),
        term: &value("TERM"),
        term_program: &value("TERM_PROGRAM"),
        term_program_version: &value("TERM_PROGRAM_VERSION"),
    })
}
