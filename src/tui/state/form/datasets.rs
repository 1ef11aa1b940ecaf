//! Forms that create, edit and delete a dataset, and import a file.

use std::collections::{BTreeMap, BTreeSet};

use model::count::{counted, parse_bytes};
use model::dataset::{Column, Dataset, DatasetId, Dtype, parse_column};
use wire::datasets::{CreateColumn, CreateDataset, UpdateDataset};

use super::{Form, FormField, Purpose, parts};
use crate::screens::data::state::live::RANGES;
use crate::state::change::{Change, DatasetEdit};
use crate::widget::format;

/// Metadata fields with the retention of a dataset, each with its label in the forms.
const RETENTION: [(&str, &str); 2] = [("keep_days", "keep days"), ("keep_bytes", "keep bytes")];

/// Choices for a row that cannot be read.
const BAD_ROWS: &[&str] = &["stop the import", "are skipped"];

/// A dataset before it is edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edited {
    pub(crate) dataset: Dataset,
    pub(crate) tags: Vec<String>,
    pub(crate) columns: Vec<Column>,
}

/// Returns the form for a new dataset.
pub(crate) fn create_form() -> Form {
    let mut fields = about("", "", &[]);
    let hint = "NAME or NAME:TYPE, comma-separated";
    fields.insert(2, FormField::new("columns", hint, "").checked(columns_problem));
    fields.extend(retention(&BTreeMap::new()));
    Form::new(Purpose::CreateDataset, "New dataset", "Create", fields)
}

/// Returns the form that edits a dataset.
pub(crate) fn edit_form(before: Edited) -> Form {
    let Edited { dataset, tags, columns } = &before;
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut fields = about(&dataset.name, &dataset.description, tags);
    fields.extend([
        FormField::new("add", "columns: NAME or NAME:TYPE", "").checked(columns_problem),
        FormField::new("rename", "columns: NAME=NEW_NAME", "")
            .among(names.clone())
            .each_if(is_rename, "is not NAME=NEW_NAME"),
        FormField::new("delete", "columns, with their values, for good", "").among(names),
    ]);
    fields.extend(retention(&dataset.metadata));
    let title = format!("Dataset {}", dataset.name);
    Form::new(Purpose::EditDataset(Box::new(before)), title, "Save", fields)
}

/// Returns the form that deletes a dataset.
pub(crate) fn delete_form(dataset: &Dataset) -> Form {
    let (id, name) = (dataset.id, &dataset.name);
    let change = Change::DeleteDataset { dataset: id, name: name.clone() };
    let intro = format!("Deletes dataset {id}, {name}, with all its rows, for good.");
    Form::confirming(change, intro, "Delete", vec![FormField::exactly("name", name)])
}

/// Returns the form that imports a file, by default into `dataset`.
pub(crate) fn import_form(dataset: Option<&Dataset>) -> Form {
    let name = dataset.map_or("", |dataset| &dataset.name);
    let fields = vec![
        FormField::new("file", "CSV, JSON or Parquet, or a directory", "").required(),
        FormField::new("dataset", "existing or new; empty: named by the file", name),
        FormField::new("time", "field with the timestamp; empty to detect it", ""),
        FormField::choice("bad rows", "↑↓ what to do with invalid rows", BAD_ROWS, BAD_ROWS[0]),
    ];
    let dataset = dataset.map(|dataset| (dataset.id, dataset.name.clone()));
    Form::new(Purpose::Import(dataset), "Import a file", "Import", fields)
}

/// Returns the form that exports the charted dataset to the file at `path`.
pub(crate) fn export_form(path: &str) -> Form {
    let fields = vec![
        FormField::new("file", "CSV, or as by .json, .ndjson, .parquet, .arrow", path).required(),
        FormField::choice("range", "↑↓ at the resolution of the chart", RANGES, RANGES[0]),
    ];
    Form::new(Purpose::Export, "Export the rows", "Export", fields)
}

fn about(name: &str, description: &str, tags: &[String]) -> Vec<FormField> {
    let hint = "comma-separated; public is for every key";
    vec![
        FormField::new("name", "unique among the datasets of this key", name).required(),
        FormField::new("description", "a sentence for people", description),
        FormField::new("tags", hint, &tags.join(", ")),
    ]
}

fn retention(metadata: &BTreeMap<String, String>) -> [FormField; 2] {
    let text = |field| metadata.get(field).map_or("", String::as_str);
    let [(days, days_label), (bytes, bytes_label)] = RETENTION;
    [
        FormField::new(days_label, "older rows are deleted; empty: no limit", text(days))
            .valid_if(|text| days_of(text).is_some(), "expected a number of days from 1"),
        FormField::new(bytes_label, "2GB: beyond it, old rows are deleted", text(bytes))
            .checked(|text| parse_bytes(text).err()),
    ]
}

/// Parses a number of days from 1.
fn days_of(text: &str) -> Option<u64> {
    text.parse::<u32>().ok().filter(|days| *days > 0).map(u64::from)
}

/// Parses the limit of the metadata field `field`. Returns `None` if there is no limit.
fn limit_of(field: &str, text: &str) -> Option<u64> {
    if field == RETENTION[0].0 { days_of(text) } else { parse_bytes(text).ok() }
}

fn columns_problem(text: &str) -> Option<String> {
    parts(text).find_map(|part| parse_column(part).err())
}

fn is_rename(part: &str) -> bool {
    part.split_once('=').is_some_and(|(_, to)| !to.trim().is_empty())
}

fn columns(form: &Form, label: &str) -> Vec<(String, Dtype)> {
    parts(form.value(label)).filter_map(|part| parse_column(part).ok()).collect()
}

/// Returns the metadata fields with the retention in `form`. `None` stands for no limit.
fn limits(form: &Form) -> impl Iterator<Item = (String, Option<String>)> {
    RETENTION.into_iter().map(|(field, label)| {
        let limit = limit_of(field, form.value(label));
        (field.to_owned(), limit.map(|limit| limit.to_string()))
    })
}

fn renames(form: &Form) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, new_name) = part.split_once('=')?;
        Some((name.trim().to_owned(), new_name.trim().to_owned()))
    };
    parts(form.value("rename")).filter_map(pair).collect()
}

/// Returns the problem of the columns that the field `label` adds or renames. Columns are deleted, then
/// renamed, then added.
pub(super) fn edit_problem(form: &Form, label: &str, before: &Edited) -> Option<String> {
    if label == "tags" {
        let tag = before.tags.iter().find(|tag| tag.contains(','))?;
        let problem = format!("tag `{tag}` has a comma: use `triptych datasets tags`");
        return are_tags_changed(form, before).then_some(problem);
    }
    let deleted = form.values("delete");
    let names = before.columns.iter().map(|column| column.name.clone());
    let mut names: BTreeSet<String> = names.filter(|name| !deleted.contains(name)).collect();
    for (name, new_name) in renames(form) {
        let problem = if !names.remove(&name) {
            format!("{name} is deleted or renamed already")
        } else if names.contains(&new_name) {
            format!("a column {new_name} exists")
        } else {
            names.insert(new_name);
            continue;
        };
        return (label == "rename").then_some(problem);
    }
    let mut added = columns(form, "add").into_iter().map(|(name, _)| name);
    let existing = added.find(|name| !names.insert(name.clone())).filter(|_| label == "add");
    existing.map(|name| format!("a column {name} exists"))
}

fn are_tags_changed(form: &Form, before: &Edited) -> bool {
    form.value("tags") != before.tags.join(", ").trim()
}

/// Returns what `edit` deletes for good, or `None` if it deletes nothing.
pub(crate) fn deletions(before: &Edited, edit: &DatasetEdit) -> Option<String> {
    let columns: Vec<&str> = edit.deleted_columns.iter().map(|it| it.name.as_str()).collect();
    let mut deletions = Vec::new();
    if !columns.is_empty() {
        deletions.push(format!("columns {} with their values", columns.join(", ")));
    }
    for (field, limit) in &edit.update.metadata {
        let Some(limit) = limit.as_deref().and_then(|text| limit_of(field, text)) else { continue };
        let known = before.dataset.metadata.get(field).and_then(|text| limit_of(field, text));
        if known.is_some_and(|known| known <= limit) {
            continue;
        }
        deletions.push(match field.as_str() {
            "keep_days" => format!("rows older than {}", counted(limit, "day")),
            _ => format!("the oldest rows beyond {}", format::bytes(limit)),
        });
    }
    (!deletions.is_empty()).then(|| deletions.join(", and "))
}

/// Returns the form that asks for confirmation of `edit`, which deletes `deletions`.
pub(crate) fn confirm_form(edit: Box<DatasetEdit>, deletions: &str) -> Form {
    let intro = format!("Changes dataset {}, and deletes {deletions}, for good.", edit.name);
    Form::confirming(Change::EditDataset(edit), intro, "Save", Vec::new())
}

/// Returns the request for a new dataset.
pub(super) fn created(form: &Form) -> Change {
    let new = |(name, dtype)| CreateColumn::new(name, dtype);
    Change::CreateDataset(CreateDataset {
        name: form.value("name").to_owned(),
        description: form.value("description").to_owned(),
        metadata: limits(form).filter_map(|(field, limit)| Some((field, limit?))).collect(),
        columns: columns(form, "columns").into_iter().map(new).collect(),
        tags: form.values("tags"),
    })
}

/// Returns the changes of a dataset that was `before`.
pub(super) fn edited(form: &Form, before: &Edited) -> Change {
    let Edited { dataset, tags, columns: known } = before;
    let other = |label, known: &str| {
        let text = form.value(label);
        (text != known.trim()).then(|| text.to_owned())
    };
    let wanted = if are_tags_changed(form, before) { form.values("tags") } else { tags.clone() };
    let deleted = form.values("delete");
    Change::EditDataset(Box::new(DatasetEdit {
        dataset: dataset.id,
        name: dataset.name.clone(),
        update: UpdateDataset {
            name: other("name", &dataset.name),
            description: other("description", &dataset.description),
            metadata: limits(form)
                .filter(|(field, limit)| dataset.metadata.get(field) != limit.as_ref())
                .collect(),
        },
        added_columns: columns(form, "add"),
        renamed_columns: renames(form),
        deleted_columns: known.iter().filter(|it| deleted.contains(&it.name)).cloned().collect(),
        added_tags: wanted.iter().filter(|tag| !tags.contains(tag)).cloned().collect(),
        removed_tags: tags.iter().filter(|tag| !wanted.contains(tag)).cloned().collect(),
    }))
}

/// Returns the import of the file in `form`, which suggests the dataset with the id and name `suggested`.
pub(super) fn imported(form: &Form, suggested: Option<&(DatasetId, String)>) -> Change {
    let text = |label| Some(form.value(label).to_owned()).filter(|text| !text.is_empty());
    Change::Import {
        path: form.value("file").into(),
        // A name can be equal to the id of another dataset.
        dataset: match suggested {
            Some((id, name)) if form.value("dataset") == name => Some(id.to_string()),
            _ => text("dataset"),
        },
        time: text("time"),
        skips_bad: form.value("bad rows") == BAD_ROWS[1],
    }
}
