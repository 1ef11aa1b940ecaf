//! `triptych tui`: the screen.

use std::{env, path::PathBuf};

use ::tui::{
    TuiOptions,
    local::Addresses,
    state::Screen,
    theme::{
        self,
        depth::{Depth, Hints},
    },
};
use clap::Args;
use task::clock::Clock;
use tracing::Level;

use crate::cli::{
    config::{self, AddressFlags},
    local::Local,
    log,
};

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
    let profile = config::profile(command.addresses)?;
    let addresses = profile
        .map(|profile| -> anyhow::Result<Addresses> {
            Ok(Addresses {
                head: profile.head,
                datasets: profile.datasets,
                inference: profile.inference,
                api_key: config::api_key()?,
                head_token: config::head_token()?,
            })
        })
        .transpose()?;
    // The screen owns the terminal: its own log goes to a file, and without a home to none.
    let logging = match config::folders() {
        Ok(folders) => {
            let folder = folders.state_dir().unwrap_or_else(|| folders.data_local_dir());
            Some(log::to_folder(&folder.join("log"), Level::INFO)?)
        }
        Err(_) => None,
    };
    let options = TuiOptions {
        local: addresses.is_none().then(|| Box::new(Local::new(command.data_dir)) as _),
        profile: addresses,
        theme: command.theme,
        is_asked: !command.no_probe,
        depth: depth(),
        screen: Screen::default(),
        has_mouse: !command.no_mouse,
        clock: Clock::system(),
    };
    let result = ::tui::run(options).await.map_err(anyhow::Error::from);
    drop(logging);
    result
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
