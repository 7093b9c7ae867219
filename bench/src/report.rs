//! Findings, as lines of JSON for programs and as a table for people.

use std::io::{self, Write};

use anyhow::Result;
use serde_json::{Value, json};

use crate::measure::{median, ratio};

/// What a scenario found out about one variant.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) scenario: &'static str,
    pub(crate) variant: String,
    pub(crate) unit: &'static str,
    /// What was measured, round by round; empty where there is nothing to measure yet.
    pub(crate) ours: Vec<f64>,
    /// What it is compared with, round by round.
    pub(crate) limit: Vec<f64>,
    /// Everything a reader must know to compare it with another run.
    pub(crate) settings: Value,
}

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Table,
}

impl Finding {
    fn to_json(&self) -> Value {
        json!({
            "scenario": self.scenario,
            "variant": self.variant,
            "ours": median(&self.ours),
            "limit": median(&self.limit),
            "ratio": ratio(&self.ours, &self.limit),
            "unit": self.unit,
            "rounds": { "ours": self.ours, "limit": self.limit },
            "settings": self.settings,
        })
    }

    fn to_row(&self) -> [String; 6] {
        [
            self.scenario.to_owned(),
            self.variant.clone(),
            number(median(&self.ours), 0),
            number(median(&self.limit), 0),
            number(ratio(&self.ours, &self.limit), 2),
            self.unit.to_owned(),
        ]
    }
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

pub(crate) fn print(findings: &[Finding], format: Format) -> Result<()> {
    let text = match format {
        Format::Json => findings.iter().map(|finding| format!("{}\n", finding.to_json())).collect(),
        Format::Table => table(findings),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Columns as wide as they must be: texts to the left, numbers to the right.
fn table(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let head = ["scenario", "variant", "ours", "limit", "ratio", "unit"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(findings.iter().map(Finding::to_row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 6] = std::array::from_fn(|column| width(column).unwrap_or_default());
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if (2..=4).contains(&column) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(ours: &[f64]) -> Finding {
        Finding {
            scenario: "drain",
            variant: "keep".into(),
            unit: "events/s",
            ours: ours.to_vec(),
            limit: vec![30_000.0, 20_000.0, 40_000.0],
            settings: json!({ "batch": 1_000 }),
        }
    }

    #[test]
    fn a_line_has_medians_and_every_round() {
        let line = finding(&[15_000.0, 10_000.0, 90_000.0]).to_json();
        assert_eq!(line["ours"], 15_000.0);
        assert_eq!(line["limit"], 30_000.0);
        assert_eq!(line["ratio"], 0.5);
        assert_eq!(line["rounds"]["ours"], json!([15_000.0, 10_000.0, 90_000.0]));
        assert_eq!(line["settings"]["batch"], 1_000);
    }

    #[test]
    fn a_limit_without_anything_to_compare_is_said_to_be_one() {
        let line = finding(&[]).to_json();
        assert_eq!((&line["ours"], &line["ratio"]), (&Value::Null, &Value::Null));
        assert_eq!(line["limit"], 30_000.0);
    }

    #[test]
    fn a_table_is_aligned() {
        let text = table(&[finding(&[15_000.0]), finding(&[])]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "scenario  variant   ours  limit  ratio  unit");
        assert_eq!(lines[1], "drain     keep     15000  30000   0.50  events/s");
        assert_eq!(lines[2], "drain     keep         -  30000      -  events/s");
    }
}
