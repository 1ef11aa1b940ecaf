//! Finds the files of an import, with the format and the dataset of each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use formats::read::selection::Selection;
use formats::read::sniff::SniffedFields;
use formats::read::{self, Format, Place, ReadOptions};
use model::escape::escape_line;
use model::text::is_unprintable;

use super::ImportOptions;

/// Path that stands for standard input.
const STDIN: &str = "-";

/// Maximum depth of nested directories. Deeper directories are a mistake or a cycle of links.
const DEPTH_MAX: usize = 16;

/// A file to import, and the dataset of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImportFile {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    /// Id or name of the dataset that gets the rows of the file.
    pub(super) dataset: String,
    /// True if the user specified the dataset, so `dataset` can be an id. Otherwise it is a name.
    pub(super) is_named: bool,
    /// Values of the parts of the path that have the form `name=value`, and the value of the field by
    /// which the file is split.
    pub(super) parts: BTreeMap<String, String>,
    /// If the file is split, the rows to import and the fields of the file. `None` imports all rows.
    pub(super) split: Option<(Selection, Arc<SniffedFields>)>,
}

impl ImportFile {
    /// Returns the display name of the file and the value of the part, if the file is split.
    pub(super) fn title(&self) -> String {
        let name = self.display_name();
        match &self.split {
            None => name,
            Some((Selection { field, value, .. }, _)) => {
                format!("{name} ({} {})", escape_line(field), escape_line(value))
            }
        }
    }

    /// Returns the place at which reading begins: before the first selected row, or the start of the
    /// file.
    pub(super) fn begin(&self) -> Place {
        self.split.as_ref().map(|(selection, _)| selection.begin).unwrap_or_default()
    }

    /// Returns the path for messages.
    pub(super) fn display_name(&self) -> String {
        if self.is_stdin() { "standard input".to_owned() } else { self.path.display().to_string() }
    }

    pub(super) fn is_stdin(&self) -> bool {
        self.path.as_os_str() == STDIN
    }

    pub(super) fn read_options(&self, options: &ImportOptions) -> ReadOptions {
        let ImportOptions { delimiter, has_header, skip_lines, .. } = *options;
        let time_unit = options.columns.time_unit;
        ReadOptions { format: self.format, delimiter, has_header, skip_lines, time_unit }
    }
}

/// Finds the files in `paths`. The files of a directory are sorted by name. With `split_by`, the name of
/// a field, they will be split later.
///
/// # Errors
/// An error if a file does not exist, or if its format or dataset cannot be determined.
pub(super) fn find_files(
    paths: &[PathBuf],
    dataset: Option<&str>,
    format: Option<Format>,
    split_by: Option<&str>,
) -> anyhow::Result<Vec<ImportFile>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = files.len();
            walk(path, 0, format, &mut files)?;
            if files.len() == before {
                bail!("no .csv, .ndjson or .parquet files in {}", path.display());
            }
        } else {
            files.push((path.clone(), format));
        }
    }
    // The asterisk stands for the values of the field, which are only known after the files were read.
    let split = split_by.map(|field| (field, "*"));
    files.into_iter().map(|(path, format)| describe_file(path, dataset, format, split)).collect()
}

/// Adds the files of `folder` whose formats are known. They have the format `format` if it is given.
fn walk(
    folder: &Path,
    depth: usize,
    format: Option<Format>,
    files: &mut Vec<(PathBuf, Option<Format>)>,
) -> anyhow::Result<()> {
    let failed = || format!("cannot read directory {}", folder.display());
    if depth > DEPTH_MAX {
        bail!("{}: directories are nested too deeply", folder.display());
    }
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).with_context(failed)?.collect();
    let mut paths: Vec<_> =
        entries.with_context(failed)?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, depth + 1, format, files)?;
        } else if !is_hidden(&path)
            && let Ok(Some(found)) = Format::of_file(&path)
        {
            files.push((path, format.or(Some(found))));
        }
    }
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(['.', '_'])
}

/// Divides a file into parts, one for each value of a field. If the dataset of the file is `prices`, the
/// part with the value `AAPL` gets the dataset `prices_AAPL`. If the template `dataset` contains the
/// field, as in `us_{symbol}`, the part gets `us_AAPL`.
///
/// # Errors
/// An error if the datasets of two values have the same name.
pub(super) fn split_file(
    file: &ImportFile,
    dataset: Option<&str>,
    selections: Vec<Selection>,
    surveyed: &Arc<SniffedFields>,
) -> anyhow::Result<Vec<ImportFile>> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    let mut files = Vec::new();
    for selection in selections {
        let value = selection.value.replace(is_unprintable, "_");
        let part = Some((selection.field.as_str(), value.as_str()));
        let mut one = describe_file(file.path.clone(), dataset, Some(file.format), part)?;
        if let Some(other) = values.insert(one.dataset.clone(), selection.value.clone()) {
            let (field, value) = (&selection.field, &selection.value);
            bail!(
                "values `{other}` and `{value}` of {field} have the same dataset {}",
                one.dataset
            );
        }
        one.split = Some((selection, Arc::clone(surveyed)));
        files.push(one);
    }
    Ok(files)
}

/// Determines the format and the dataset of a file. `split` is the field by which the file is split,
/// with the value of the part.
fn describe_file(
    path: PathBuf,
    dataset: Option<&str>,
    format: Option<Format>,
    split: Option<(&str, &str)>,
) -> anyhow::Result<ImportFile> {
    let shown = path.display();
    let format = format.map_or_else(|| Format::of_file(&path), |format| Ok(Some(format)));
    let Some(format) = format.with_context(|| format!("cannot import {shown}"))? else {
        bail!("unknown format of {shown}\nhint: pass --format csv, ndjson or parquet")
    };
    let mut parts = parts(&path);
    // Excludes parts such as `dt=…`, which contain a time and do not name the dataset.
    let named = parts.iter().find(|(name, _)| !is_time_part(name));
    let usual = named.map(|(_, value)| value.clone()).or_else(|| stem(&path));
    parts.extend(split.map(|(field, value)| (field.to_owned(), value.to_owned())));
    let name = match (dataset, usual) {
        (Some(template), _) => fill_template(template, &path, &parts)?,
        (None, Some(name)) => name,
        (None, None) => bail!("unknown dataset of {shown}\nhint: pass --dataset"),
    };
    let has_part =
        |field: &str| dataset.is_some_and(|template| template.contains(&format!("{{{field}}}")));
    let name = match split {
        Some((field, value)) if !has_part(field) => format!("{name}_{value}"),
        _ => name,
    };
    let is_named = split.is_none() && dataset.is_some_and(|template| !template.contains('{'));
    Ok(ImportFile { path, format, dataset: name, is_named, parts, split: None })
}

pub(super) fn is_time_part(name: &str) -> bool {
    ["dt", "date", "year", "month", "day", "hour"].contains(&name)
}

/// Returns the parts of a path that have the form `name=value`, as in partitioned data.
fn parts(path: &Path) -> BTreeMap<String, String> {
    let folders = path.parent().map(Path::components).into_iter().flatten();
    let part = |folder: Component<'_>| {
        let (name, value) = folder.as_os_str().to_str()?.split_once('=')?;
        (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    let mut parts: BTreeMap<_, _> = folders.filter_map(part).collect();
    if let Some((name, value)) = stem(path).as_deref().and_then(|stem| stem.split_once('=')) {
        parts.insert(name.to_owned(), value.to_owned());
    }
    parts
}

/// Returns the file name without extensions, or `None` for standard input.
fn stem(path: &Path) -> Option<String> {
    let stem = read::stem(path)?;
    (!stem.is_empty() && stem != STDIN).then(|| stem.to_owned())
}

fn fill_template(
    template: &str,
    path: &Path,
    parts: &BTreeMap<String, String>,
) -> anyhow::Result<String> {
    let mut name = template.to_owned();
    if let Some(stem) = stem(path) {
        name = name.replace("{stem}", &stem);
    }
    for (part, value) in parts {
        name = name.replace(&format!("{{{part}}}"), value);
    }
    if name.contains('{') {
        let known: Vec<_> = parts.keys().map(String::as_str).chain(["stem"]).collect();
        let (path, known) = (path.display(), known.join(", "));
        bail!("{template} cannot be filled for {path}, which only has {known}");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, dataset: Option<&str>, want: &str) {
        let file = describe_file(PathBuf::from(path), dataset, None, None);
        let got = file.map_or_else(|error| error.to_string(), |file| file.dataset);
        assert_eq!(got, want);
    }

    #[test]
    fn dataset_of_a_split_part_is_named_after_its_value() {
        let name = |path: &str, dataset| {
            let split = Some(("symbol", "A B"));
            let file = describe_file(PathBuf::from(path), dataset, None, split).unwrap();
            assert_eq!(file.parts["symbol"], "A B");
            (file.dataset, file.is_named)
        };
        assert_eq!(name("kit/all.csv", None), ("all_A B".to_owned(), false));
        assert_eq!(name("kit=x/all.csv", None), ("x_A B".to_owned(), false));
        assert_eq!(name("all.csv", Some("7")), ("7_A B".to_owned(), false));
        assert_eq!(name("all.csv", Some("{symbol}_{stem}")), ("A B_all".to_owned(), false));
    }

    #[test]
    fn dataset_is_named_after_the_path_of_its_file() {
        check("data/btcusd.csv.gz", None, "btcusd");
        check("kit/symbol=ethusd/dt=2026-07-30.parquet", None, "ethusd");
        check("symbol=ethusd/dt=2026-07-30.parquet", Some("kit_{symbol}"), "kit_ethusd");
        check("a/b.csv", Some("{stem}_1min"), "b_1min");
        let want = "{symbol} cannot be filled for a/b.csv, which only has stem";
        check("a/b.csv", Some("{symbol}"), want);
        check("notes", None, "unknown format of notes\nhint: pass --format csv, ndjson or parquet");
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/datasets/compressed");
        let error = describe_file(format!("{data}/two.zip").into(), None, None, None).unwrap_err();
        assert!(format!("{error:#}").ends_with("several files, extract one: a.csv, b.csv"));
    }
}
