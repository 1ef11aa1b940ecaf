//! `triptych inference synthesize`: single epochs computed from files.

use std::path::{Path, PathBuf};

use ::inference::math::cases::{self, CaseError, CaseResult};
use anyhow::Context as _;
use clap::Args;
use model::escape::escape_line;
use serde::Serialize;
use serde_json::{Value, json};
use wire::inference::cases::{Names, SynthesisCase, read};

use crate::cli::{
    output::{self, print_json, table},
    parse::{STDIO, read_text},
};

/// Where cases come from, and how results are printed.
#[derive(Debug, Args)]
pub(crate) struct ComputeCommand {
    /// The file; `-` or nothing for standard input
    file: Option<PathBuf>,
    /// Print a table for people instead of JSON
    #[arg(long)]
    explain: bool,
}

impl ComputeCommand {
    fn text(&self) -> anyhow::Result<String> {
        read_text(self.file.as_deref().unwrap_or(Path::new(STDIO)), usize::MAX - 1)
    }
}

/// Combines each case's submissions.
///
/// # Errors
/// If the file or a case is unfit.
pub(crate) fn synthesize(command: &ComputeCommand) -> anyhow::Result<()> {
    let cases: Vec<SynthesisCase> = read(&command.text()?).context("read the cases")?;
    let mut answers = Vec::new();
    let mut tables = String::new();
    for (idx, case) in cases.iter().enumerate() {
        let reckoned = name_case(idx, &case.name, cases::synthesized(case))?;
        if command.explain {
            tables.push_str(&weights_table(&case.name, &reckoned));
        }
        answers.push(answer(&case.name, case.expected.as_ref(), &reckoned.result)?);
    }
    print(command, &answers, &tables)
}

/// Names the case that failed.
fn name_case<T>(idx: usize, name: &str, result: Result<T, CaseError>) -> anyhow::Result<T> {
    result.with_context(|| format!("compute case {} `{}`", idx + 1, escape_line(name)))
}

/// The members of `result` that `expected` asks for, all without it, beside the case's name.
fn answer(name: &str, expected: Option<&Names>, result: &impl Serialize) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(result)?;
    if let Some(members) = value.as_object_mut() {
        members.retain(|member, _| expected.is_none_or(|expected| expected.contains_key(member)));
        members.insert("name".to_owned(), Value::from(name));
    }
    Ok(value)
}

fn print(command: &ComputeCommand, answers: &[Value], tables: &str) -> anyhow::Result<()> {
    if command.explain {
        return output::print(tables.trim_end_matches('\n'));
    }
    print_json(&serde_json::to_string_pretty(&json!({ "cases": answers }))?)
}

/// Who counted for how much, and why.
fn weights_table(name: &str, reckoned: &CaseResult) -> String {
    let heads = ["actor", "role", "regret", "regret/scale", "share", "value"];
    let mut rows = Vec::new();
    for actor in &reckoned.actors {
        let regret = actor.regret.map_or("none".to_owned(), |regret| format!("{regret:.6}"));
        let scaled = actor.regret.zip(reckoned.scale).map(|(regret, scale)| regret / scale);
        rows.push(vec![
            actor.name.clone(),
            actor.role.name().to_owned(),
            regret,
            scaled.map_or("none".to_owned(), |scaled| format!("{scaled:.4}")),
            format!("{:.2} %", actor.share * 100.0),
            actor.value.as_ref().map_or("none".to_owned(), |value| value.0.clone()),
        ]);
    }
    let result = &reckoned.result;
    let first = |values: &[wire::inference::cases::Decimal]| {
        values.iter().map(|value| value.0.as_str()).collect::<Vec<_>>().join(" ")
    };
    let scale = reckoned.scale.map_or("none".to_owned(), |scale| scale.to_string());
    let mut text = format!("{}\n", escape_line(name));
    text.extend([table(&heads, &rows, &[]), "\n".to_owned()]);
    for (label, value) in [
        ("combined", first(&result.combined)),
        ("naive", first(&result.naive)),
        ("scale of regrets", scale),
        ("interval", first(&result.confidence_interval_values)),
    ] {
        text.extend([format!("{label:<17} "), value, "\n".to_owned()]);
    }
    text.push('\n');
    text
}
