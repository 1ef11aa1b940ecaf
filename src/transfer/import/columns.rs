//! Maps the fields of a file to columns by the options, the columns of the dataset, and the values of
//! the fields.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use client::datasets::Datasets;
use formats::read::column_mapping::{ColumnMapping, MappedColumn};
use formats::read::number_text::Decimal;
use formats::read::sniff::time_column::{TimeFields, TimePart};
use formats::read::sniff::{Field, SniffedFields, sniff};
use formats::read::{FileError, Place, ReadOptions, Rows};
use model::count::counted;
use model::dataset::{
    BAR_COLUMNS, Dataset, DatasetId, Dtype, TIMESTAMP, VALUE_COLUMN, likely_value_column,
};
use model::escape::escape_line;
use tokio::task::spawn_blocking;
use wire::datasets::{CreateColumn, CreateDataset};

use super::ColumnOptions;
use super::files::ImportFile;
use crate::find::look_up_dataset;

/// Maximum number of columns in a preview, which then fills a screen.
const PREVIEWED_COLUMNS: usize = 40;

/// Number of rows whose timestamps are compared before an import.
const CHECKED_ROWS: usize = 2_000;

/// Minimum number of rows for a conclusion from repeated timestamps.
const REPEATED_ROWS_MIN: usize = 10;

/// Mapping of the fields of a file to the columns of a dataset, and the changes that the dataset needs.
pub(super) struct ImportPlan {
    pub(super) plan: ColumnMapping,
    /// Fields that together contain the timestamp.
    time: TimeFields,
    decimal: Decimal,
    /// Number of the file that could have a group mark instead of a decimal point.
    possible_group: Option<String>,
    /// True if the file has no header, so columns are named by numbers.
    is_numbered: bool,
    /// Fields that become columns: the name of the field, the index of the column, and the first value.
    fields: Vec<(String, usize, Option<String>)>,
    /// Existing dataset, and the indices of the columns that are to be added to it. `None` if the
    /// dataset does not exist.
    exists: Option<(Dataset, Vec<usize>)>,
}

/// Maps the fields of a file to columns, by the beginning of the file and the columns of its dataset.
///
/// # Errors
/// An error if the file cannot be read, or does not match the options.
pub(super) async fn plan_import(
    service: &Datasets,
    flags: &ColumnOptions,
    file: &ImportFile,
    options: ReadOptions,
) -> anyhow::Result<ImportPlan> {
    let surveyed = match &file.split {
        Some((_, surveyed)) => Arc::clone(surveyed),
        None => Arc::new(survey_file(flags, file, options).await?),
    };
    let dataset = if file.is_named {
        look_up_dataset(service, &file.dataset).await?
    } else {
        service.find_by_name(&file.dataset).await.context("cannot find the dataset")?
    };
    let columns: BTreeMap<String, Dtype> = match &dataset {
        None => BTreeMap::new(),
        Some(dataset) => {
            let columns = service.columns(dataset.id).await.context("cannot read the columns")?;
            columns.into_iter().map(|column| (column.name, column.dtype)).collect()
        }
    };
    let mut time = surveyed.time(flags.time.as_deref(), flags.first_hour)?;
    time.unit = flags.time_unit.or(time.unit);
    check_time(flags, &time)?;
    let (decimal, possible_group) = decimal_mark(flags, &surveyed)?;
    let mut plan = ColumnMapping::with_time(&time, flags.time_texts.clone())
        .with_numbers(decimal, flags.nulls.clone());
    let (mut fields, mut missing) = (Vec::new(), Vec::new());
    check_names(flags, &surveyed)?;
    check_fit(flags, &surveyed)?;
    for field in surveyed.fields.iter().filter(|field| !time.contains(&field.name)) {
        // Skips a field that is also a part `name=value` of the path, since it has the same value in
        // every row.
        if flags.leave_out.contains(&field.name) || file.parts.contains_key(&field.name) {
            plan.leave_out(&field.name);
            continue;
        }
        let mapped = flags.names.iter().find(|(name, _)| *name == field.name);
        let name = match mapped {
            Some((_, column)) => column.clone(),
            None if columns.contains_key(&field.name) => field.name.clone(),
            None => plain_bar(&field.name, &surveyed).unwrap_or(&field.name).to_owned(),
        };
        let flagged = flags.types.iter().find(|(column, _)| *column == name);
        let existing = columns.get(&name).copied();
        let flagged = flagged.map(|(_, flagged)| *flagged);
        let dtype = choose_dtype(&name, existing, flagged)?.unwrap_or(field.dtype);
        let idx = plan.columns().len();
        if existing.is_none() {
            missing.push(idx);
        }
        let is_chosen = flagged.is_some();
        plan.column(&field.name, MappedColumn { name, dtype, is_chosen });
        fields.push((field.name.clone(), idx, example(field, dtype)));
    }
    if let Some((selection, _)) = &file.split {
        if time.contains(&selection.field) {
            bail!("column {} is the time, and files cannot be split by time", selection.field);
        }
        plan.select(selection.clone());
    }
    check_types(flags, &plan)?;
    check_timestamp(&plan)?;
    if plan.columns().is_empty() {
        bail!("file has no columns except {}", time.name);
    }
    let exists = dataset.map(|dataset| (dataset, missing));
    let is_numbered = surveyed.fields.iter().all(|field| field.name.starts_with("column_"));
    Ok(ImportPlan { plan, time, decimal, possible_group, is_numbered, fields, exists })
}

/// Returns the type of the column `name`: the `existing` type in the dataset, or the type of an option.
///
/// # Errors
/// If both are given and differ.
fn choose_dtype(
    name: &str,
    existing: Option<Dtype>,
    flagged: Option<Dtype>,
) -> anyhow::Result<Option<Dtype>> {
    match existing.zip(flagged) {
        Some((existing, flagged)) if existing != flagged => bail!(
            "column {name} is {existing} in the dataset, and cannot become {flagged}\nhint: choose another \
             dataset with --dataset, or first delete the column or the dataset"
        ),
        _ => Ok(existing.or(flagged)),
    }
}

/// Returns the decimal mark of the numbers, and a number that could have a group mark instead of a decimal
/// point.
fn decimal_mark(
    flags: &ColumnOptions,
    surveyed: &SniffedFields,
) -> Result<(Decimal, Option<String>), FileError> {
    if let Some(decimal) = flags.decimal {
        return Ok((decimal, None));
    }
    Ok(match surveyed.decimal()? {
        Decimal::Point => (Decimal::Point, surveyed.possible_group().map(str::to_owned)),
        Decimal::Comma => (Decimal::Comma, None),
    })
}

/// Examines the fields at the beginning of a file. For standard input, derives them from the options.
pub(super) async fn survey_file(
    flags: &ColumnOptions,
    file: &ImportFile,
    options: ReadOptions,
) -> anyhow::Result<SniffedFields> {
    if file.is_stdin() {
        return survey_from_flags(flags);
    }
    let (path, texts) = (file.path.clone(), flags.time_texts.clone());
    Ok(spawn_blocking(move || sniff(&path, options, &texts)).await??)
}

/// Checks that most of the first rows have different timestamps. Otherwise, nearly all rows of the file
/// would be replaced by others.
pub(super) async fn check_repeats(
    plan: &ImportPlan,
    file: &ImportFile,
    options: ReadOptions,
) -> anyhow::Result<()> {
    let (path, mapping) = (file.path.clone(), plan.plan.clone());
    let count = move || -> Result<_, FileError> {
        let mut rows = Rows::open(&path, options, mapping, Place::default())?;
        let (mut n_rows, mut times) = (0, HashSet::new());
        while n_rows < CHECKED_ROWS
            && let Some(row) = rows.next_row()?
        {
            if let Ok(row) = row {
                n_rows += 1;
                times.insert(row.row.timestamp);
            }
        }
        Ok((n_rows, times.len()))
    };
    let (n_rows, n_times) = spawn_blocking(count).await??;
    if n_rows < REPEATED_ROWS_MIN || n_times * 2 >= n_rows {
        return Ok(());
    }
    let (column, first) = (plan.time_column(), escape_line(&plan.time.name));
    bail!(
        "the first {n_rows} rows have {} in {column}, and rows with the same timestamp replace each \
         other\nhint: pass --split-by FIELD if the file has several series, combine the parts of the \
         time to one field, or pass --time-column {first} to keep the last row of each timestamp",
        counted(n_times, "different timestamp")
    )
}

/// Returns the first value of a field, with a hint if the field has numbers written as texts.
fn example(field: &Field, dtype: Dtype) -> Option<String> {
    let example = field.example.as_ref()?;
    if dtype == Dtype::String && field.has_number_texts {
        let name = escape_line(&field.name);
        return Some(format!("{example}, a text; --type {name}=float stores a number"));
    }
    Some(example.clone())
}

/// Returns the column `open` for a field named `Open`, and the same for the other columns of bars, since
/// buckets and charts use the lowercase names. Returns `volume` for a field named `Vol` if all other
/// columns of bars exist. Returns `None` for other fields, or if several fields differ only in case.
fn plain_bar(field: &str, surveyed: &SniffedFields) -> Option<&'static str> {
    let n_called = |name: &str| {
        surveyed.fields.iter().filter(|other| other.name.eq_ignore_ascii_case(name)).count()
    };
    let [prices @ .., volume] = BAR_COLUMNS;
    let is_volume = field.eq_ignore_ascii_case("vol")
        && n_called(volume) == 0
        && prices.into_iter().all(|price| n_called(price) == 1);
    let name = if is_volume { volume } else { field };
    let bar = BAR_COLUMNS.into_iter().find(|bar| bar.eq_ignore_ascii_case(name))?;
    (n_called(field) == 1).then_some(bar)
}

/// Derives the fields of standard input from the options, since the input can be read only once.
fn survey_from_flags(flags: &ColumnOptions) -> anyhow::Result<SniffedFields> {
    let Some(time) = &flags.time else {
        bail!("unknown time column of standard input\nhint: name it with --time-column")
    };
    if flags.types.is_empty() {
        bail!("unknown columns of standard input\nhint: name each with --type COLUMN=TYPE");
    }
    let field = |column: &String| {
        let mapped = flags.names.iter().find(|(_, name)| name == column);
        mapped.map_or(column, |(field, _)| field).clone()
    };
    let types = flags.types.iter().map(|(column, dtype)| (field(column), *dtype));
    Ok(SniffedFields::declare(time, types))
}

/// Checks that every field that is named in the options exists.
fn check_names(flags: &ColumnOptions, surveyed: &SniffedFields) -> anyhow::Result<()> {
    let mut named = flags.names.iter().map(|(field, _)| field).chain(&flags.leave_out);
    named.try_for_each(|name| check_field(name, surveyed))
}

/// Checks that the file has a field called `name`.
pub(super) fn check_field(name: &str, surveyed: &SniffedFields) -> anyhow::Result<()> {
    if surveyed.fields.iter().any(|field| field.name == name) {
        return Ok(());
    }
    let fields: Vec<_> = surveyed.fields.iter().map(|field| escape_line(&field.name)).collect();
    bail!("there is no field {name}, only {}", fields.join(", "))
}

/// Checks that the options are compatible with the fields of the timestamp.
fn check_time(flags: &ColumnOptions, time: &TimeFields) -> anyhow::Result<()> {
    if flags.time_texts.format.is_some() && time.others.iter().any(|of| of.0 == TimePart::Month) {
        bail!("--time-format does not apply to year, month and day in separate columns");
    }
    let mut mapped = flags.names.iter().filter(|(_, column)| column != "timestamp");
    if let Some((field, _)) = mapped.find(|(field, _)| time.names().any(|name| name == field)) {
        bail!(
            "field {field} is the timestamp and cannot be mapped to a column, remove --map {field}=…"
        );
    }
    Ok(())
}

/// Checks that each field can become a column or is left out.
fn check_fit(flags: &ColumnOptions, surveyed: &SniffedFields) -> anyhow::Result<()> {
    let kept = surveyed.fields.iter().filter(|field| !flags.leave_out.contains(&field.name));
    let unfit = kept.filter_map(|field| Some((escape_line(&field.name), field.unfit.as_ref()?)));
    let unfit: Vec<_> = unfit
        .map(|(name, reason)| format!("column {name}: {reason}; pass --leave-out {name}"))
        .collect();
    if unfit.is_empty() {
        Ok(())
    } else {
        bail!("some fields cannot become columns: {}", unfit.join(". "))
    }
}

/// Checks that every column with a type in the options exists.
fn check_types(flags: &ColumnOptions, plan: &ColumnMapping) -> anyhow::Result<()> {
    for (column, _) in &flags.types {
        if !plan.columns().iter().any(|planned| planned.name == *column) {
            let columns: Vec<_> =
                plan.names().iter().map(|name| escape_line(name).into_owned()).collect();
            bail!("there is no column {column}, only {}", columns.join(", "));
        }
    }
    Ok(())
}

/// Checks that no column has the name that is reserved for the timestamp.
fn check_timestamp(plan: &ColumnMapping) -> anyhow::Result<()> {
    if plan.columns().iter().any(|column| column.name == TIMESTAMP) {
        bail!(
            "field {TIMESTAMP} is not the time, and a column cannot have this name: pass --map \
             {TIMESTAMP}=NAME, --leave-out {TIMESTAMP} or --time-column {TIMESTAMP}"
        );
    }
    Ok(())
}

impl ImportPlan {
    /// Returns the id of the dataset, if it already exists.
    pub(super) fn dataset(&self) -> Option<DatasetId> {
        self.exists.as_ref().map(|(dataset, _)| dataset.id)
    }

    /// Returns the name of the existing dataset, or the name for a new dataset.
    pub(super) fn dataset_name(&self, file: &ImportFile) -> String {
        let existing = self.exists.as_ref().map(|(dataset, _)| &dataset.name);
        existing.unwrap_or(&file.dataset).clone()
    }

    /// Returns the display names of the fields that contain the timestamp.
    pub(super) fn time_column(&self) -> String {
        let names: Vec<_> = self.time.names().map(escape_line).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} and {last}", others.join(", "))
            }
            _ => names.concat(),
        }
    }

    /// Returns the likely value column if the column that the service would choose has no values.
    fn value_column(&self) -> Option<String> {
        let name_and_type = |column: &MappedColumn| (column.name.clone(), column.dtype);
        let columns: Vec<_> = self.plan.columns().iter().map(name_and_type).collect();
        let with_fields = columns.iter().zip(&self.fields);
        let with_values = with_fields.filter(|(_, (.., example))| example.is_some());
        let with_values: Vec<_> = with_values.map(|(column, _)| column.clone()).collect();
        let value = likely_value_column(&with_values)?;
        (likely_value_column(&columns) != Some(value)).then(|| value.to_owned())
    }

    /// Describes the import for the user. The parts of a split file have the same columns, so only the
    /// first part lists them.
    pub(super) fn preview(&self, file: &ImportFile) -> String {
        let name = self.dataset_name(file);
        let name = escape_line(&name);
        let into = match &self.exists {
            Some((dataset, _)) => format!("into dataset {}, {name}", dataset.id),
            None => format!("into a new dataset {name}"),
        };
        let mut lines = vec![format!("{} is imported {into}", file.title())];
        if file.begin() != Place::default() {
            return lines.concat();
        }
        lines.push(format!("  {:<8} {}", "time", self.time_column()));
        if self.decimal == Decimal::Comma {
            lines.push("  numbers have a decimal comma: 1,5 is 1.5".to_owned());
        }
        if let Some(number) = &self.possible_group {
            lines.push(format!(
                "  numbers have a decimal point: pass --decimal , if {number} is in thousands"
            ));
        }
        if self.is_numbered {
            lines.push("  the first line is data: columns are named by their positions".to_owned());
        }
        for (field, idx, example) in self.fields.iter().take(PREVIEWED_COLUMNS) {
            let Some(column) = self.plan.columns().get(*idx) else { continue };
            let is_new = self.exists.as_ref().is_some_and(|(_, missing)| missing.contains(idx));
            let mut line = format!("  {:<8} {}", column.dtype, escape_line(&column.name));
            if *field != column.name {
                line = format!("{line}, from {}", escape_line(field));
            }
            if is_new {
                line.push_str(", a new column");
            }
            if let Some(example) = example {
                line = format!("{line}: {}", escape_line(example));
            }
            lines.push(line);
        }
        let n_more = self.fields.len().saturating_sub(PREVIEWED_COLUMNS);
        if n_more > 0 {
            lines.push(format!("  and {}", counted(n_more, "more column")));
        }
        lines.join("\n")
    }

    /// Creates the dataset, or adds missing columns to it. Returns its id.
    ///
    /// # Errors
    /// An error if the service refuses.
    pub(super) async fn prepare_dataset(
        &self,
        service: &Datasets,
        template: &CreateDataset,
        file: &ImportFile,
    ) -> anyhow::Result<DatasetId> {
        let Some((dataset, missing)) = &self.exists else {
            let columns = self.plan.columns().iter();
            let columns = columns.map(|column| CreateColumn::new(&column.name, column.dtype));
            let (name, columns) = (file.dataset.clone(), columns.collect());
            let mut body = CreateDataset { name, columns, ..template.clone() };
            if let Some(value) = self.value_column() {
                body.metadata.entry(VALUE_COLUMN.to_owned()).or_insert(value);
            }
            for (name, value) in &file.parts {
                if !super::files::is_time_part(name) {
                    body.metadata.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            let failed = || format!("cannot create dataset {}", file.dataset);
            return Ok(service.create(&body).await.with_context(failed)?.id);
        };
        for column in missing.iter().filter_map(|idx| self.plan.columns().get(*idx)) {
            let failed = || format!("cannot add column {} to dataset {}", column.name, dataset.id);
            service
                .add_column(dataset.id, &column.name, column.dtype)
                .await
                .with_context(failed)?;
        }
        Ok(dataset.id)
    }
}
