//! `triptych tui`: the screen.

use std::{env, fs, path::PathBuf};

use ::tui::{
    TuiOptions,
    profiles::KeyPlace,
    state::{
        profiles::{NO_PROFILE, Profiles},
        session,
    },
    theme::{
        self,
        depth::{Depth, Hints},
    },
    update::Start,
};
use clap::Args;
use task::clock::Clock;
use tracing::Level;

use crate::cli::{
    config::{self, AddressFlags, Chosen},
    local::Local,
    log,
    profiles::{self, Keeper},
    secret::Keys,
};

/// The name of the file of presets in the configuration folder.
const PRESETS_FILE: &str = "presets.json";

/// The flags of the screen.
#[derive(Debug, Args)]
pub(crate) struct TuiCommand {
    #[command(flatten)]
    addresses: AddressFlags,
    /// The colors: auto, dark, light, cvd (color-blind), high-contrast, mono or ansi16; auto asks
    /// the terminal for its background
    #[arg(long, env = "TRIPTYCH_THEME", default_value = "auto", value_name = "NAME")]
    #[arg(value_parser = theme_or_auto)]
    theme: Theme,
    /// Ask the terminal nothing: for those that print the question
    #[arg(long)]
    no_probe: bool,
    /// Open as for the first time, and keep nothing of this session for the next
    #[arg(long)]
    forget: bool,
    /// Leave the mouse to the terminal
    #[arg(long)]
    no_mouse: bool,
    /// The folder of the local stack's state [default: the platform's folder for data]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// A theme, or none for the one that suits the terminal.
type Theme = Option<theme::Name>;

fn theme_or_auto(text: &str) -> Result<Theme, theme::NameError> {
    if text == "auto" { Ok(None) } else { text.parse().map(Some) }
}

/// Opens the screen and returns when it is closed.
///
/// # Errors
/// If the configuration is unfit, or there is no terminal.
pub(crate) async fn run(command: TuiCommand) -> anyhow::Result<()> {
    let session = if command.forget { None } else { session_file() };
    let last = session.as_deref().and_then(|path| fs::read_to_string(path).ok());
    let last_profile = last.as_deref().and_then(session::profile);
    let (chosen, mut profiles) = config::chosen(command.addresses, last_profile)?;
    let listed = profiles::listed(&profiles);
    // With the key in the environment nothing else is looked at, and the services are asked at
    // once; else the keyring may take a while, which the first frame does not wait for.
    let (start, current) = match chosen {
        None => (None, None),
        Some(Chosen { name, profile }) => {
            let mut addresses = profiles::addresses(profile.clone());
            addresses.head_token = config::head_token()?;
            addresses.api_key = config::api_key()?;
            let opened = name.clone().unwrap_or_else(|| NO_PROFILE.to_owned());
            profiles.insert(opened.clone(), profile);
            let start = match addresses.api_key {
                Some(_) => Start::Connect(addresses),
                None => Start::Profile(opened),
            };
            (Some(start), name)
        }
    };
    let key_place = matches!(start, Some(Start::Connect(_))).then_some(KeyPlace::Environment);
    let keeper = Keys::of_user().ok().map(|keys| Box::new(Keeper::new(profiles, keys)) as _);
    // The screen owns the terminal: its own log goes to a file, and without a home to none.
    let logging = match config::folders() {
        Ok(folders) => {
            let folder = folders.state_dir().unwrap_or_else(|| folders.data_local_dir());
            Some(log::to_folder(&folder.join("log"), Level::INFO)?)
        }
        Err(_) => None,
    };
    let options = TuiOptions {
        start: start.unwrap_or(Start::Local),
        local: Some(Box::new(Local::new(command.data_dir))),
        presets: config::folders().ok().map(|it| it.config_dir().join(PRESETS_FILE)),
        keeper,
        profiles: Profiles {
            list: listed,
            current,
            has_local: true,
            key_place,
            ..Profiles::default()
        },
        session,
        theme: command.theme,
        is_asked: !command.no_probe,
        depth: depth(),
        has_mouse: !command.no_mouse
            && last.as_deref().and_then(session::has_mouse).unwrap_or(true),
        clock: Clock::system(),
    };
    let result = Box::pin(::tui::run(options)).await.map_err(anyhow::Error::from);
    drop(logging);
    result
}

/// The file of what outlives the program; none without a home folder.
fn session_file() -> Option<PathBuf> {
    let folders = config::folders().ok()?;
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_local_dir());
    Some(folder.join("session.json"))
}

/// How many colors the terminal shows, as the environment tells.
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
