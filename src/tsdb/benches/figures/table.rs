//! The table of figures and bars.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use crate::Outcome;

/// Figures, in the order they were taken.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<(String, String, String, bool)>,
}

impl Table {
    /// A figure that others are judged by.
    pub(crate) fn say(&mut self, name: &str, figure: f64, unit: &str) {
        self.add(name, figure, String::new(), unit, true);
    }

    pub(crate) fn at_least(&mut self, name: &str, figure: f64, bar: f64, unit: &str) {
        self.add(name, figure, format!(">= {bar} {unit}"), unit, figure >= bar);
    }

    pub(crate) fn at_most(&mut self, name: &str, figure: f64, bar: f64, unit: &str) {
        self.add(name, figure, format!("<= {bar} {unit}"), unit, figure <= bar);
    }

    fn add(&mut self, name: &str, figure: f64, bar: String, unit: &str, is_met: bool) {
        self.rows.push((name.to_owned(), format!("{figure:.2} {unit}"), bar, is_met));
    }

    /// Prints all; fails if a bar is missed.
    pub(crate) fn print(self) -> Outcome<ExitCode> {
        let mut stdout = io::stdout().lock();
        for (name, figure, bar, is_met) in &self.rows {
            let verdict = match is_met {
                _ if bar.is_empty() => "",
                true => "met",
                false => "MISSED",
            };
            writeln!(stdout, "{name:60} | {figure:>18} | {bar:>20} | {verdict}")?;
        }
        let is_met = self.rows.iter().all(|(.., is_met)| *is_met);
        Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
