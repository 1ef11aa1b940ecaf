//! `triptych inference synthesize`: computes single epochs from files.

use std::path::{Path, PathBuf};

use ::inference::math::cases::{self, ActorShare, CaseResult};
use anyhow::{Context as _, bail};
use clap::Args;
use model::escape::escape_line;
use serde::Serialize;
use serde_json::{Value, json};
use wire::inference::cases::{Names, SynthesisCase, read};

use crate::cli::output::{self, Column, print_json, table_of};
use crate::cli::parse::{STDIO, read_text};

/// Flags of `inference synthesize`.
#[derive(Debug, Args)]
pub(crate) struct ComputeCommand {
    /// File with the cases; `-` or nothing for standard input
    file: Option<PathBuf>,
    /// Print a table for people instead of JSON
    #[arg(long)]
    explain: bool,
}

/// Combines the submissions of each case.
///
/// # Errors
/// If the file or a case is invalid.
pub(crate) fn synthesize(command: &ComputeCommand) -> anyhow::Result<()> {
    let text = read_text(command.file.as_deref().unwrap_or(Path::new(STDIO)), usize::MAX - 1)?;
    let cases: Vec<SynthesisCase> = read(&text).context("invalid cases")?;
    let mut results = Vec::new();
    let mut tables = String::new();
    for (idx, case) in cases.iter().enumerate() {
        let result = cases::synthesized(case)
            .with_context(|| format!("invalid case {} `{}`", idx + 1, escape_line(&case.name)))?;
        if command.explain {
            tables.push_str(&weights_table(&case.name, &result));
        }
        results.push(result_json(&case.name, case.expected.as_ref(), &result.result)?);
    }
    if command.explain {
        return output::print(tables.trim_end_matches('\n'));
    }
    print_json(&serde_json::to_string_pretty(&json!({ "cases": results }))?)
}

/// Returns an object with `name` and the members of `result`. If the case has expected results,
/// includes only the members that `expected` contains, so that both can be compared.
fn result_json(
    name: &str,
    expected: Option<&Names>,
    result: &impl Serialize,
) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(result)?;
    let mut unknown = expected.into_iter().flat_map(Names::keys);
    if let Some(name) = unknown.find(|name| value.get(name.as_str()).is_none()) {
        bail!("unknown member `{}` of expected", escape_line(name));
    }
    if let Some(members) = value.as_object_mut() {
        members.retain(|member, _| expected.is_none_or(|expected| expected.contains_key(member)));
        members.insert("name".to_owned(), Value::from(name));
    }
    Ok(value)
}

/// Formats a table of the actors with their weights and the values that the weights are computed from.
fn weights_table(name: &str, case: &CaseResult) -> String {
    let none = || "none".to_owned();
    let scaled = |actor: &ActorShare| Some(actor.regret? / case.scale?);
    let columns: [Column<'_, ActorShare>; 6] = [
        ("actor", &|actor| actor.name.clone()),
        ("role", &|actor| actor.role.name().to_owned()),
        ("regret", &|actor| actor.regret.map_or_else(none, |regret| format!("{regret:.6}"))),
        ("regret/scale", &|actor| scaled(actor).map_or_else(none, |it| format!("{it:.4}"))),
        ("share", &|actor| format!("{:.2} %", actor.share * 100.0)),
        ("value", &|actor| actor.value.as_ref().map_or_else(none, |value| value.0.clone())),
    ];
    let result = &case.result;
    let first = |values: &[wire::inference::cases::Decimal]| {
        values.iter().map(|value| value.0.as_str()).collect::<Vec<_>>().join(" ")
    };
    let scale = case.scale.map_or_else(none, |scale| scale.to_string());
    let mut text = format!("{}\n", escape_line(name));
    text.extend([table_of(&case.actors, &columns), "\n".to_owned()]);
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
