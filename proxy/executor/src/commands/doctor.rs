//! `doctor`: shows every check's answer. What is checked is `doctor`'s own module.

use serde_json::json;

use crate::doctor::{Level, check_all};
use crate::problem::Problem;

use super::{Context, Report};

/// Runs every check. Exit code 1 where one fails; a warning is no failure.
pub fn run(context: &Context) -> Result<Report, Problem> {
    let answers = check_all(context);
    let mut text = String::new();
    for answer in &answers {
        text.push_str(&format!(
            "{:<4}  {}: {}\n",
            answer.level.word(),
            answer.name,
            answer.what
        ));
        if !answer.remedy.is_empty() {
            text.push_str(&format!("      what to do: {}\n", answer.remedy));
        }
    }
    let count = |level| {
        answers
            .iter()
            .filter(|answer| answer.level == level)
            .count()
    };
    let (fails, warns) = (count(Level::Fail), count(Level::Warn));
    text.push_str(&format!(
        "{fails} wrong, {warns} to look at, {} well\n",
        count(Level::Ok)
    ));
    let mut report = Report::new(
        text,
        json!({"checks": answers, "wrong": fails, "warnings": warns}),
    );
    report.exit = u8::from(fails > 0);
    Ok(report)
}
