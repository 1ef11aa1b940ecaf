//! Local effects: processes, files, profiles, the clipboard and the pager.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

use client::datasets::download_file::DownloadFile;
use client::datasets::{Datasets, DatasetsQuery};
use client::functions::Functions;
use client::inference::Inference;
use client::transport::Transport;
use model::escape::escape_line;
use model::key::ApiKey;
use task::causes::chain;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use wire::functions::FunctionBody;

use crate::effects::{
    Runner, absent, expand_home, failure, read_optional, unwritten, write_private,
};
use crate::event::{Effect, Event, ProfileEvent};
use crate::local::{Addresses, LocalError, LocalStack, Packed};
use crate::profiles::ProfileStore;
use crate::screens::execute::state::presets::{self, Preset, Presets};
use crate::state::resource::{Failure, Outcome};

impl Runner {
    /// Performs `effect` if it is local, otherwise returns it.
    pub(super) fn use_machine(&mut self, effect: Effect) -> Option<Effect> {
        let (presets, local_events) = (self.files.presets.clone(), self.local_events.clone());
        let (local, profiles) = (Arc::clone(&self.local), self.profiles.clone());
        match effect {
            Effect::StartLocal => {
                self.report("local stack", async move {
                    let error = local.start(local_events).await.err()?;
                    let next = "look at the logs (5), or name services with --head";
                    Some(Event::LocalFailed(describe(&error, next)))
                });
            }
            Effect::FindLocal => self.report("local stack", async move {
                local.attach(local_events).await;
                None
            }),
            Effect::DetachNodes => local.detach(),
            Effect::OpenProfile(name) => {
                self.report("profile", async move { Some(open(profiles, name).await) });
            }
            Effect::KeepKey { profile, addresses, key } => {
                self.call("key", keep(profiles, profile, addresses, key));
            }
            Effect::ForgetKey(name) => self.call("forgotten key", forget(profiles, name)),
            Effect::LoadPresets => self.report("presets", async move {
                Some(read_presets(&presets?).await.map_or_else(Event::Failed, Event::Presets))
            }),
            Effect::ChangePreset { name, preset } => {
                let lock = Arc::clone(&self.presets);
                self.report("presets", async move {
                    let _locked = lock.lock().await;
                    Some(change_preset(presets.as_deref(), name, preset.map(|it| *it)).await)
                });
            }
            Effect::Save { path, text, what } => self.report("save", async move {
                let result = save(&path, &text).await;
                Some(Event::Saved { path, what, result })
            }),
            Effect::Copy(text) => self.report("copy", async move {
                let by = copy(&text).await;
                Some(Event::Copied { text, by })
            }),
            Effect::LoadUsage => {
                self.report("usage", async move { Some(Event::Usage(local.usage())) });
            }
            Effect::FindDetachedNodes => {
                self.use_local(async move { local.find_detached(local_events).await });
            }
            Effect::AddNode(options) => {
                self.use_local(async move { local.add(options, local_events).await });
            }
            Effect::StopProcess(name) => {
                self.use_local(async move { local.stop_process(&name).await });
            }
            Effect::RestartProcess(name) => {
                self.use_local(async move { local.restart(&name, local_events).await });
            }
            effect => return Some(effect),
        }
        None
    }

    /// Starts the pager with `text`. [`Event::Paged`] reports its exit.
    pub(crate) fn start_pager(&self, text: String) {
        self.report("pager", async move { Some(Event::Paged(page(&text).await)) });
    }

    /// Runs a call of the local stack and reports its failure.
    fn use_local(&self, call: impl Future<Output = Result<(), LocalError>> + Send + 'static) {
        self.report("this machine", async move {
            call.await.err().map(|error| Event::Failed(describe(&error, LOGS)))
        });
    }
}

/// Uploads the module or directory at `path` to the head. If the head already has the content, the
/// content is not uploaded again and retains its name.
pub(super) async fn add_function(
    local: Arc<dyn LocalStack>,
    head: Option<Functions>,
    path: String,
) -> Outcome<FunctionBody> {
    let what = format!("add {path}");
    let head = head.ok_or_else(|| absent(&what))?;
    let packed = local
        .pack(&expand_home(&path).to_string_lossy())
        .await
        .map_err(|error| describe(&error, LOGS))?;
    let Packed { name, function_id, method, car } = packed;
    // If the head cannot list its functions, the content is uploaded even if the head has it.
    let held = head.functions().await.unwrap_or_default();
    if let Some(function) = held.into_iter().find(|held| held.function_id == function_id) {
        return Ok(function);
    }
    let added = head.upload(&name, &method, car).await.map_err(|error| failure(&what, &error))?;
    if added.function_id == function_id {
        return Ok(added);
    }
    Err(Failure::new(what, format!("the head computed another id, {}", added.function_id), ""))
}

/// Writes `text` to `path` atomically.
async fn save(path: &Path, text: &str) -> Outcome<()> {
    let done = async {
        let mut file = DownloadFile::create(&expand_home(path)).await?;
        file.write(text.as_bytes()).await?;
        file.finish().await
    };
    done.await.map_err(|error| unwritten(&format!("save to {}", path.display()), &error))
}

fn describe(error: &LocalError, next: &str) -> Failure {
    Failure::new(error.what.as_str(), chain(&*error.source), next)
}

/// Advice after a failure of a local process.
const LOGS: &str = "look at the logs (5)";

async fn read_presets(path: &Path) -> Outcome<Presets> {
    let text = read_optional(path).await.map_err(|error| error.to_string());
    let presets =
        text.and_then(|text| text.map_or(Ok(Presets::new()), |text| presets::read_presets(&text)));
    let what = format!("read the presets in {}", path.display());
    presets.map_err(|why| Failure::new(what, why, "correct the file, or remove it"))
}

/// Stores `preset` in the file at `path`, or removes the preset `name` if `preset` is `None`.
/// Presets that another screen has added remain.
async fn change_preset(path: Option<&Path>, name: String, preset: Option<Preset>) -> Event {
    let what = if preset.is_some() { "save" } else { "remove" };
    let what = format!("{what} the preset \"{name}\"");
    let mut left_out = None;
    let changed = async {
        let no_path = "no directory for presets is known";
        let path = path.ok_or_else(|| Failure::new(what.as_str(), no_path, "set HOME"))?;
        let mut list = read_presets(path).await?;
        left_out = presets::change_preset(&mut list, &name, preset)
            .map_err(|why| Failure::new(what.as_str(), why, ""))?;
        let (file, text) = (path.to_owned(), presets::write_presets(&list));
        let written = spawn_blocking(move || write_private(&file, &text)).await;
        let what = format!("{what} in {}", path.display());
        let failed = |error: io::Error| Failure::new(what, error.to_string(), "");
        written.map_err(io::Error::from).flatten().map_err(failed).map(|()| list)
    };
    let result = changed.await;
    Event::PresetChanged { name, left_out, result }
}

/// Store of the profiles, if there is one.
type Keeper = Option<Arc<dyn ProfileStore>>;

async fn open(keeper: Keeper, name: String) -> Event {
    let opened = async {
        let keeper = keeper.ok_or_else(|| absent("open the profile"))?;
        keeper.open(&name).await.map_err(|error| describe(&error, ""))
    };
    let result = opened.await;
    Event::Profile(ProfileEvent::Opened { name, result })
}

/// Checks `key` and stores it for `profile`.
async fn keep(keeper: Keeper, profile: String, addresses: Addresses, key: ApiKey) -> Event {
    let stored = async {
        check_key(&addresses, &key).await?;
        let keeper = keeper.ok_or_else(|| absent("store the key"))?;
        keeper.keep_key(&profile, &key).await.map_err(|error| describe(&error, ""))
    };
    let result = stored.await.map(|place| (place, key));
    Event::Profile(ProfileEvent::Kept { profile, result })
}

/// Checks `key` by a small request to a service that requires a key.
async fn check_key(addresses: &Addresses, key: &ApiKey) -> Outcome<()> {
    let what = "check the key";
    let opened = |address: &String| {
        Transport::new(address, Some(key.clone())).map_err(|error| failure(what, &error))
    };
    let response = match addresses {
        Addresses { datasets: Some(address), .. } => {
            let query = DatasetsQuery { search: String::new(), limit: Some(1), offset: 0 };
            Datasets::new(opened(address)?).list(&query).await.map(drop)
        }
        Addresses { inference: Some(address), .. } => {
            Inference::new(opened(address)?).topics().await.map(drop)
        }
        _ => return Err(absent(what)),
    };
    response.map_err(|error| failure(what, &error))
}

async fn forget(keeper: Keeper, profile: String) -> Event {
    let result = match keeper {
        None => Err(absent("remove the key")),
        Some(keeper) => keeper.forget_key(&profile).await.map_err(|error| describe(&error, "")),
    };
    Event::Profile(ProfileEvent::Forgotten { profile, result })
}

// The escape sequence OSC 52 asks the terminal to copy a text. Terminals without support ignore it
// silently, and so does tmux by default. OSC 52 is therefore used only if no tool copies the text:
// without a display, and over SSH, where a tool would use the clipboard of the wrong machine.

/// A program that copies its standard input: its name, its arguments, an environment variable that
/// is set if the program can work, and true if it copies only to the clipboard of this machine.
type Tool = (&'static str, &'static [&'static str], &'static str, bool);

/// The tools, in order of preference.
const TOOLS: [Tool; 4] = [
    // macOS sets this variable in every session.
    ("pbcopy", &[], "__CF_USER_TEXT_ENCODING", true),
    ("wl-copy", &[], "WAYLAND_DISPLAY", true),
    ("xclip", &["-selection", "clipboard"], "DISPLAY", true),
    // With `-w`, tmux also copies the text to the clipboard of its terminal.
    ("tmux", &["load-buffer", "-w", "-"], "TMUX", false),
];

/// Copies `text`. Returns the name of the tool that copied it, or `None` if all tools failed.
async fn copy(text: &str) -> Option<&'static str> {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    for tool in tools(is_set) {
        // A tool hands the text to a background process and exits, so a slow tool has failed.
        if timeout(Duration::from_secs(2), run_tool(tool, text)).await == Ok(Some(())) {
            return Some(tool.0);
        }
    }
    None
}

/// Returns the tools that can work, judging by the environment variables that are set.
fn tools(is_set: impl Fn(&str) -> bool) -> impl Iterator<Item = Tool> {
    let is_far = is_set("SSH_TTY") || is_set("SSH_CONNECTION");
    TOOLS.into_iter().filter(move |(.., needed, is_local)| is_set(needed) && !(*is_local && is_far))
}

/// Runs the tool with `text` as standard input. Returns `None` if the tool fails.
async fn run_tool((name, arguments, ..): Tool, text: &str) -> Option<()> {
    let mut command = Command::new(name);
    // The tool's background process must not inherit the terminal, which would remain open.
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn().ok()?;
    child.stdin.take()?.write_all(text.as_bytes()).await.ok()?;
    child.wait().await.ok()?.success().then_some(())
}

/// Pager if `PAGER` is not set.
const PAGER: &str = "less";

/// Exit codes of a shell if a program is missing or cannot be executed.
const NOT_STARTED: [i32; 2] = [126, 127];

/// Shows `text` in the pager and waits for the pager to exit.
///
/// # Errors
/// If the pager does not start.
async fn page(text: &str) -> Outcome<()> {
    let pager = env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let pager = pager.unwrap_or_else(|| PAGER.to_owned());
    let failed = |why: String| {
        Failure::new(
            format!("page through the output with `{pager}`"),
            why,
            "set PAGER to a program that reads standard input",
        )
    };
    // The text can be the output of an untrusted function, and pagers do not filter control
    // sequences, so these are escaped.
    let mut lines: Vec<String> =
        text.lines().map(|line| escape_line(&line.replace('\t', "        ")).into()).collect();
    lines.push(String::new());
    let mut child = Command::new("sh")
        .args(["-c", &pager])
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // The user can exit the pager before it has read the whole text, so a failure is ignored.
        stdin.write_all(lines.join("\n").as_bytes()).await.ok();
    }
    let status = child.wait().await.map_err(|error| failed(error.to_string()))?;
    match status.code() {
        Some(code) if NOT_STARTED.contains(&code) => Err(failed(format!("exit {code}"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use wire::functions::ExecuteRequest;

    use super::*;
    use crate::state::runs::Input;

    #[tokio::test]
    async fn presets_file_round_trips() {
        let folder = env::temp_dir().join(format!("triptych-presets-{}", std::process::id()));
        let path = folder.join("deep").join("presets.json");
        assert_eq!(read_presets(&path).await, Ok(Presets::new()), "none yet");
        let preset = Preset { request: ExecuteRequest::default(), input: Input::Typed };
        let change = async |name: &str, preset: Option<Preset>| {
            let changed = change_preset(Some(&path), name.to_owned(), preset).await;
            let Event::PresetChanged { result, .. } = changed else { panic!("{changed:?}") };
            result
        };
        // A change of one screen retains the presets of another screen.
        change("a", Some(preset.clone())).await.unwrap();
        let both = change("b", Some(preset)).await.unwrap();
        assert_eq!(both.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(read_presets(&path).await, Ok(both));
        assert_eq!(change("a", None).await.unwrap().len(), 1);
        tokio::fs::write(&path, "{").await.unwrap();
        let failure = read_presets(&path).await.unwrap_err();
        assert!(failure.what.contains("presets.json"), "{failure:?}");
        assert_eq!(change("b", None).await, Err(failure));
        tokio::fs::remove_dir_all(&folder).await.unwrap();
    }

    #[track_caller]
    fn check(variables: &[&str], want: &[&str]) {
        let found: Vec<&str> = tools(|name| variables.contains(&name)).map(|tool| tool.0).collect();
        assert_eq!(found, want, "{variables:?}");
    }

    #[test]
    fn clipboard_tools_are_chosen_by_the_environment() {
        check(&[], &[]);
        check(&["DISPLAY"], &["xclip"]);
        check(&["WAYLAND_DISPLAY", "DISPLAY", "TMUX"], &["wl-copy", "xclip", "tmux"]);
        check(&["__CF_USER_TEXT_ENCODING"], &["pbcopy"]);
        check(&["SSH_TTY", "DISPLAY"], &[]);
        check(&["SSH_CONNECTION", "WAYLAND_DISPLAY", "TMUX"], &["tmux"]);
    }
}
