//! Effects on this machine: local processes and files.

use std::{collections::BTreeMap, io, path::Path, sync::Arc};

use client::functions::Functions;
use task::{
    causes::chain,
    file::{FileMode, write_atomic},
};
use tokio::task::spawn_blocking;
use wire::functions::FunctionBody;

use super::{Runner, absent, clipboard, failure};
use crate::{
    event::{Effect, Event},
    local::{LocalError, LocalStack, Packed},
    screens::execute::state::presets::{self, Preset},
    state::loadable::Failure,
};

impl Runner {
    /// Performs an effect on this machine alone; returns any other.
    pub(super) fn use_machine(&self, effect: Effect) -> Option<Effect> {
        let (presets, local_events) = (self.presets.clone(), self.local_events.clone());
        match effect {
            Effect::LoadPresets => self.report("presets", async move {
                Some(read_presets(&presets?).await.map_or_else(Event::Failed, Event::Presets))
            }),
            Effect::SavePresets(list) => self.report("presets", async move {
                let Some(path) = presets else { return Some(Event::Failed(no_preset_file())) };
                write_presets(&path, &list).await.err().map(Event::Failed)
            }),
            Effect::Copy(text) => self.report("copy", async move {
                let by = clipboard::copy(&text).await;
                Some(Event::Copied { text, by })
            }),
            Effect::FindDetachedNodes if self.local.is_none() => {}
            Effect::FindDetachedNodes => {
                self.use_local(|local| async move { local.find_kept(local_events).await });
            }
            Effect::LoadUsage => {
                let local = self.local.clone();
                self.report("usage", async move { Some(Event::Usage(local?.usage())) });
            }
            Effect::AddNode(wish) => {
                self.use_local(|local| async move { local.add(wish, local_events).await });
            }
            Effect::StopProcess(name) => {
                self.use_local(|local| async move { local.end(&name).await });
            }
            Effect::RestartProcess(name) => {
                self.use_local(|local| async move { local.restart(&name, local_events).await });
            }
            effect => return Some(effect),
        }
        None
    }

    /// Calls the local stack, and reports a failure, or that there is none.
    fn use_local<F>(&self, call: impl FnOnce(Arc<dyn LocalStack>) -> F)
    where
        F: Future<Output = Result<(), LocalError>> + Send + 'static,
    {
        let done = self.local.clone().map(call);
        self.report("this machine", async move {
            let Some(done) = done else { return Some(Event::Failed(no_local_stack())) };
            done.await.err().map(|error| Event::Failed(describe(&error)))
        });
    }
}

/// Uploads the module or folder at `path` to the head, unless that holds the same content, which
/// keeps its name there.
pub(super) async fn add_function(
    local: Option<Arc<dyn LocalStack>>,
    head: Option<Functions>,
    path: String,
) -> Result<FunctionBody, Failure> {
    let what = format!("add {path}");
    let (Some(local), Some(head)) = (local, head) else {
        return Err(absent(&what));
    };
    let packed = local.pack(&path).await.map_err(|error| describe(&error))?;
    let Packed { name, function_id, method, car } = packed;
    // A head that cannot list its functions gets the content in any case.
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

fn describe(error: &LocalError) -> Failure {
    Failure::new(error.to_string(), chain(&*error.source), "look at the logs (5)")
}

fn no_local_stack() -> Failure {
    Failure::new("manage local processes", "this screen was opened without a local stack", "")
}

fn no_preset_file() -> Failure {
    Failure::new("save the presets", "no folder for them is known", "set HOME")
}

async fn read_presets(path: &Path) -> Result<BTreeMap<String, Preset>, Failure> {
    let text = match tokio::fs::read_to_string(path).await {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => Err(error.to_string()),
    };
    text.and_then(|text| presets::read(&text)).map_err(|why| {
        Failure::new(
            format!("read the presets in {}", path.display()),
            why,
            "correct the file, or remove it",
        )
    })
}

async fn write_presets(path: &Path, list: &BTreeMap<String, Preset>) -> Result<(), Failure> {
    let done = async {
        if let Some(folder) = path.parent() {
            tokio::fs::create_dir_all(folder).await?;
        }
        let (path, text) = (path.to_owned(), presets::write(list));
        let writing = move || write_atomic(&path, text.as_bytes(), FileMode::Private);
        spawn_blocking(writing).await?
    };
    done.await.map_err(|error: io::Error| {
        Failure::new(format!("save the presets in {}", path.display()), error.to_string(), "")
    })
}

#[cfg(test)]
mod tests {
    use wire::functions::ExecuteRequest;

    use super::*;
    use crate::state::runs::Input;

    #[tokio::test]
    async fn presets_are_read_as_they_were_written() {
        let folder = std::env::temp_dir().join(format!("triptych-presets-{}", std::process::id()));
        let path = folder.join("deep").join("presets.json");
        assert_eq!(read_presets(&path).await, Ok(BTreeMap::new()), "none yet");
        let preset = Preset { request: ExecuteRequest::default(), input: Input::Typed };
        let list = BTreeMap::from([("a".to_owned(), preset)]);
        write_presets(&path, &list).await.unwrap();
        assert_eq!(read_presets(&path).await, Ok(list));
        tokio::fs::write(&path, "{").await.unwrap();
        let failure = read_presets(&path).await.unwrap_err();
        assert!(failure.what.contains("presets.json"), "{failure:?}");
        tokio::fs::remove_dir_all(&folder).await.unwrap();
    }
}
