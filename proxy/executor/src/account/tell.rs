//! An account as a document for scripts and as text for people. Decides nothing; what others chose is made safe for a terminal.

use countersign_gate::turn::{What, WriteDenials};
use serde_json::{Map, Value, json};

use crate::commands::{plain, table};

use super::{Account, Calls, Mark, TurnLine};

impl Account {
    /// As a document. `write_denials` is always there; where the book could not be read to its end the status says so and nothing is
    /// counted.
    #[must_use]
    pub fn document(&self, report: &str) -> Value {
        let asked = &self.asked;
        let mut members = Map::new();
        members.insert("report".to_owned(), report.into());
        members.insert("agent".to_owned(), asked.agent.clone().into());
        members.insert("children".to_owned(), asked.children.clone().into());
        members.extend(asked.turn.map(|turn| ("turn".to_owned(), turn.into())));
        members.insert("entries_read".to_owned(), self.read.into());
        match &self.unavailable {
            None => {
                members.insert("status".to_owned(), "complete".into());
                members.insert("calls".to_owned(), self.counted());
                members.insert("refusals".to_owned(), json!(self.refusals));
                members.insert("approvals".to_owned(), json!(self.approvals));
            }
            Some(error) => {
                members.insert("status".to_owned(), "unavailable".into());
                members.insert("error".to_owned(), error.clone().into());
            }
        }
        let turns: Vec<Value> = self.turns.iter().map(turn).collect();
        members.insert("turns".to_owned(), turns.into());
        members.insert("write_denials".to_owned(), self.denials.document());
        Value::Object(members)
    }

    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let asked = &self.asked;
        let mut text = match asked.turn {
            Some(turn) => format!("{}, turn {turn}, by the book alone\n", plain(&asked.agent)),
            None => format!("{}, by the book alone\n", plain(&asked.agent)),
        };
        if !asked.children.is_empty() {
            let children: Vec<String> = asked.children.iter().map(|child| plain(child)).collect();
            text.push_str(&format!("denials of {} with it\n", children.join(", ")));
        }
        match &self.unavailable {
            Some(error) => text.push_str(&format!(
                "\nthe book cannot be read to its end, so nothing is counted: {}\nonly what stands before that place is shown ({} entries)\n",
                plain(error),
                self.read
            )),
            None => text.push_str(&self.calls_text()),
        }
        for line in &self.turns {
            text.push_str(&turn_text(line));
        }
        text.push_str(&denials_text(&self.denials));
        text
    }

    fn counted(&self) -> Value {
        let mut all = Calls::default();
        let mut tools = Vec::new();
        for ((server, tool), calls) in &self.calls {
            all.count += calls.count;
            for (outcome, count) in &calls.outcomes {
                *all.outcomes.entry(outcome).or_default() += count;
            }
            tools.push(json!({
                "server": server, "tool": tool, "count": calls.count, "outcomes": calls.outcomes,
            }));
        }
        json!({"count": all.count, "outcomes": all.outcomes, "tools": tools})
    }

    fn calls_text(&self) -> String {
        let mut text = String::new();
        if self.calls.is_empty() {
            text.push_str("\nno calls\n");
        } else {
            let rows: Vec<Vec<String>> = self
                .calls
                .iter()
                .map(|((server, tool), calls)| {
                    vec![
                        plain(&format!("{server}/{tool}")),
                        calls.count.to_string(),
                        counts(calls.outcomes.iter()),
                    ]
                })
                .collect();
            text.push('\n');
            text.push_str(&table(&["tool", "calls", "how they ended"], &rows));
        }
        if !self.refusals.is_empty() {
            let counts = counts(self.refusals.iter());
            text.push_str(&format!("refused before they were looked at: {counts}\n"));
        }
        if !self.approvals.is_empty() {
            let counts = counts(self.approvals.iter());
            text.push_str(&format!("held for you: {counts}\n"));
        }
        text
    }
}

fn counts<'a, N: std::fmt::Display + 'a>(counts: impl Iterator<Item = (N, &'a u64)>) -> String {
    let counts: Vec<String> = counts
        .map(|(name, count)| format!("{count} {}", plain(&name.to_string())))
        .collect();
    counts.join(", ")
}

fn turn(line: &TurnLine) -> Value {
    let mark = |mark: &Mark| json!({"at": mark.at, "reason": mark.reason, "by": mark.by, "entry": mark.entry});
    let ended = line.ended.as_ref().map(|(what, ended)| {
        let mut ended = mark(ended);
        ended["kind"] = what.kind().into();
        ended
    });
    json!({"agent": line.agent, "turn": line.turn, "opened": line.opened.as_ref().map(mark), "ended": ended})
}

fn turn_text(line: &TurnLine) -> String {
    let said = |mark: &Mark| format!("{} ({})", plain(&mark.at), plain(&mark.reason));
    let began = match &line.opened {
        Some(mark) => format!("began {}", said(mark)),
        None => "has no entry of its beginning".to_owned(),
    };
    let ended = match &line.ended {
        None => "has no entry of its end".to_owned(),
        Some((What::Failed, mark)) => format!("was ended by two strikes {}", said(mark)),
        Some((_, mark)) => format!("ended {}", said(mark)),
    };
    format!("turn {} {began}, {ended}\n", line.turn)
}

fn denials_text(denials: &WriteDenials) -> String {
    let (list, counted) = match denials {
        WriteDenials::Known(list) => (list, true),
        WriteDenials::Unavailable { denials, .. } => (denials, false),
    };
    let heading = match (counted, list.len()) {
        (true, 0) => return "write denials: none\n".to_owned(),
        (true, count) => format!("write denials: {count}\n"),
        (false, 0) => return "write denials: unavailable\n".to_owned(),
        (false, _) => "write denials: unavailable; those that could be read:\n".to_owned(),
    };
    let fact = |denial: &countersign_gate::turn::WriteDenial, names: &[&str]| {
        let found = names.iter().find_map(|name| denial.facts.get(*name));
        let found = found.and_then(Value::as_str).map(str::to_owned);
        plain(&found.or_else(|| denial.aim.clone()).unwrap_or_default())
    };
    let rows: Vec<Vec<String>> = list
        .iter()
        .map(|denial| {
            vec![
                denial.index.to_string(),
                plain(&denial.agent),
                denial
                    .turn
                    .map_or_else(String::new, |turn| turn.to_string()),
                denial.disposition.text().to_owned(),
                fact(denial, &["matched_rule", "rule"]),
                fact(denial, &["requested_path", "requested_command", "tool"]),
            ]
        })
        .collect();
    heading + &table(&["entry", "agent", "turn", "ended", "rule", "aim"], &rows)
}
