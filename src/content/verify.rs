//! A function in memory whose content has been verified.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use model::function::content::{Codec, ContentId};
use model::function::{FunctionId, Method};
use model::text::is_unprintable;
use wire::functions::FunctionBody;

use super::contents::{Contents, is_module, is_runnable};
use super::dag::Dag;
use super::error::{ContentError, shorten};
use super::pack::{self, CUT, Entry};
use super::{CAR_BYTES_MAX, FUNCTION_BYTES_MAX, FunctionsError, Upload, car, read_path};

/// Maximum length of a function's name in characters, the same as for file names.
pub(super) const NAME_CHARS_MAX: usize = 255;

/// Maximum number of modules at the top of a function. Their names are held in memory.
const METHODS_MAX: usize = 64;

/// File name of a module without a known name.
const UNNAMED: &str = "module.wasm";

/// Description of a stored function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Content id of the function.
    pub id: FunctionId,
    /// Human-readable name: the module's file name without the extension, or the name of the directory.
    pub name: String,
    /// Default module. In a directory, this is the module named like the directory, or else the first
    /// module.
    pub method: Method,
    /// Size of the content in bytes.
    pub size_bytes: u64,
    /// Size of the function's files in the store in bytes.
    pub kept_bytes: u64,
    /// Kind of content.
    pub kind: Kind,
}

/// Kind of a function's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// One module. Its content id does not verify its file name, so it runs under any method name.
    Module,
    /// A directory with these modules.
    Folder(Arc<[Method]>),
}

impl Function {
    /// Returns the public description. The description does not include the ids from manifests.
    #[must_use]
    pub fn body(&self) -> FunctionBody {
        FunctionBody {
            name: self.name.clone(),
            function_id: self.id.to_string(),
            method: self.method.to_string(),
            bytes: self.size_bytes,
            by_manifest: Vec::new(),
        }
    }

    /// Returns true if the function can be called by the method `method`.
    #[must_use]
    pub fn runs(&self, method: &Method) -> bool {
        match &self.kind {
            Kind::Module => true,
            Kind::Folder(methods) => methods.contains(method),
        }
    }
}

/// Names that came with a function. The content does not verify them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameHints {
    /// Human-readable name of the function.
    pub name: Option<String>,
    /// Default module of a directory, or file name of a single module.
    pub method: Option<Method>,
}

/// A function and its verified content.
#[derive(Debug)]
pub(super) struct VerifiedFunction {
    pub(super) function: Function,
    /// Content in stored form: a module as one block, or a CAR.
    pub(super) bytes: Bytes,
    pub(super) contents: Contents,
    /// Id of the function's only module as one raw block; `None` for a directory.
    pub(super) raw_id: Option<FunctionId>,
}

impl VerifiedFunction {
    /// Packs the module or directory at `path`. Blocks.
    pub(super) fn of_path(path: &Path) -> Result<Self, FunctionsError> {
        let name = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = name.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        match read_path::read(path)? {
            Entry::File(bytes) => {
                let wrong = |_| ContentError::Path { path: shorten(&name) };
                Self::of_file(None, name.parse().map_err(wrong)?, &bytes)
            }
            folder @ Entry::Folder(_) => {
                let label = NameHints { name: Some(name), method: None };
                Self::of_dag(label, folder.to_dag()?, FUNCTION_BYTES_MAX)
            }
        }
    }

    /// Packs a module.
    pub(super) fn of_file(
        name: Option<String>,
        method: Method,
        bytes: &Bytes,
    ) -> Result<Self, FunctionsError> {
        if !is_module(bytes) {
            return Err(FunctionsError::NotModule { method });
        }
        if bytes.len() > FUNCTION_BYTES_MAX {
            return Err(ContentError::TooLarge { max: FUNCTION_BYTES_MAX }.into());
        }
        let label = NameHints { name, method: Some(method) };
        Self::of_dag(label, pack::file(bytes, CUT), FUNCTION_BYTES_MAX)
    }

    /// Creates a function from a tree of verified blocks. The tree and its archive each have at most
    /// `bytes_max` bytes of files.
    pub(super) fn of_dag(
        label: NameHints,
        mut dag: Dag,
        bytes_max: usize,
    ) -> Result<Self, FunctionsError> {
        if dag.root.codec() == Codec::Raw {
            let missing = ContentError::Missing { id: dag.root };
            let bytes = dag.blocks.remove(&dag.root).ok_or(missing)?;
            return Self::of_block(dag.root, label, bytes);
        }
        let contents = Contents::of_dag(&dag, bytes_max)?;
        let bytes = dag.car(contents.archive)?;
        Self::new(dag.root, label, bytes, contents)
    }

    /// Creates a function from one block. Fails if the block does not match `id`.
    pub(super) fn of_block(
        id: ContentId,
        label: NameHints,
        bytes: Bytes,
    ) -> Result<Self, FunctionsError> {
        let size_bytes = bytes.len();
        if size_bytes > FUNCTION_BYTES_MAX {
            return Err(ContentError::TooLarge { max: FUNCTION_BYTES_MAX }.into());
        }
        if id.codec() != Codec::Raw || !id.names(&bytes) {
            return Err(FunctionsError::Mismatch { id: id.into(), size_bytes });
        }
        let contents = Contents::from_module(bytes.clone())?;
        Self::new(id, label, bytes, contents)
    }

    /// Creates a function from content in stored form, with a limit as for [`Self::of_dag`].
    pub(super) fn of_kept(
        id: ContentId,
        label: NameHints,
        bytes: Bytes,
        bytes_max: usize,
    ) -> Result<Self, FunctionsError> {
        match id.codec() {
            Codec::Raw => Self::of_block(id, label, bytes),
            Codec::DagPb => Self::of_dag(label, Dag::read(id, &bytes)?, bytes_max),
        }
    }

    /// Returns the function as a CAR.
    pub(super) fn upload(self) -> Upload {
        let car = match self.function.id.content() {
            Some(id) if id.codec() == Codec::Raw => car::write(id, [(id, &self.bytes)]),
            _ => self.bytes,
        };
        Upload { function: self.function, car }
    }

    fn new(
        id: ContentId,
        label: NameHints,
        bytes: Bytes,
        contents: Contents,
    ) -> Result<Self, FunctionsError> {
        if bytes.len() > CAR_BYTES_MAX {
            return Err(ContentError::TooLarge { max: CAR_BYTES_MAX }.into());
        }
        let (name, method, kind) = choose_names(id, label, &contents)?;
        let module = contents.module(&method).filter(|_| contents.folder().is_none());
        let function = Function {
            id: id.into(),
            name,
            method,
            size_bytes: contents.size_bytes() as u64,
            kept_bytes: bytes.len() as u64,
            kind,
        };
        let raw_id = module.map(|module| FunctionId::from_module(&module));
        Ok(Self { function, bytes, contents, raw_id })
    }
}

/// Returns the name, the default module and the kind of a function.
fn choose_names(
    id: ContentId,
    label: NameHints,
    contents: &Contents,
) -> Result<(String, Method, Kind), ContentError> {
    let label = NameHints { name: label.name.map(|name| tidy_name(&name)), ..label };
    let Some(files) = contents.folder() else {
        let method = match label.method {
            Some(method) => method,
            None => parse_method(UNNAMED)?,
        };
        let stem = method.as_str().rsplit_once('.').map_or(method.as_str(), |(stem, _)| stem);
        return Ok((label.name.unwrap_or_else(|| stem.to_owned()), method, Kind::Module));
    };
    let methods =
        files.iter().filter(|file| is_runnable(file)).map(|file| parse_method(&file.path));
    let methods: Vec<Method> = methods.collect::<Result<_, _>>()?;
    if methods.len() > METHODS_MAX {
        return Err(ContentError::TooMuch { what: "modules", max: METHODS_MAX });
    }
    let name = label.name.or_else(|| contents.name.as_deref().map(tidy_name));
    let of_name = name.as_ref().map(|name| format!("{name}.wasm"));
    let preferred = [label.method.map(|method| method.to_string()), of_name];
    let chosen = preferred
        .iter()
        .flatten()
        .find_map(|name| methods.iter().find(|method| method.as_str() == name))
        .or(methods.first())
        .cloned();
    let method = chosen.ok_or(ContentError::NoModule { n_files: files.len() })?;
    let name = name.unwrap_or_else(|| id.to_string());
    Ok((name, method, Kind::Folder(methods.into())))
}

/// Returns a name that is short and free of characters that terminals interpret.
fn tidy_name(name: &str) -> String {
    name.chars().filter(|letter| !is_unprintable(*letter)).take(NAME_CHARS_MAX).collect()
}

fn parse_method(name: &str) -> Result<Method, ContentError> {
    name.parse().map_err(|_| ContentError::Path { path: shorten(name) })
}
