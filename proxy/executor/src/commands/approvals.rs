//! `approvals list|show|approve|decline`: what agents asked the person for. Shows and decides; runs nothing. A yes that must be signed
//! with a passkey is not taken here.

use clap::{Args, Subcommand};
use countersign_gate::approval::{ApprovalState, By, DecideError, Needs, Verdict};
use countersign_gate::idempotency::Owner;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::recorder::liveness::is_alive;
use crate::secrets::{Account, SecretsError};
use crate::store::{Held, Seal, StateDb, Undecided};

use super::{Context, Report, owed, plain, spelled, table};

/// How many are listed.
const LISTED: u32 = 200;

/// What to do with approvals.
#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// What waits for you, newest first
    List(ListArgs),
    /// What one call would do: its arguments and its preview
    Show(IdArgs),
    /// Let one call run, once
    Approve(IdArgs),
    /// Refuse one call
    Decline(IdArgs),
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Also what is decided or over
    #[arg(long)]
    pub all: bool,
}

/// Arguments of the others.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// The approval's id, as `approvals list` shows it
    pub id: String,
}

/// Runs one of them.
pub fn run(context: &Context, command: ApprovalsCommand) -> Result<Report, Problem> {
    match command {
        ApprovalsCommand::List(args) => list(context, &args),
        ApprovalsCommand::Show(args) => show(context, &args.id),
        ApprovalsCommand::Approve(args) => decide(context, &args.id, Verdict::Approve),
        ApprovalsCommand::Decline(args) => decide(context, &args.id, Verdict::Decline),
    }
}

fn list(context: &Context, args: &ListArgs) -> Result<Report, Problem> {
    let held = held(context)?;
    let shown: Vec<&Held> = held
        .iter()
        .filter(|held| args.all || held.approval.state == ApprovalState::Waiting)
        .collect();
    let json = json!({"approvals": shown.iter().map(|held| document(held)).collect::<Vec<_>>()});
    if shown.is_empty() {
        return Ok(Report::new("nothing waits for you\n", json));
    }
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|held| {
            let approval = &held.approval;
            vec![
                approval.id.to_string(),
                plain(agent(held)),
                plain(&format!(
                    "{}/{}",
                    approval.bound.server, approval.bound.tool
                )),
                approval.state.text().to_owned(),
                approval.expires_at.to_string(),
            ]
        })
        .collect();
    let heading = ["id", "agent", "tool", "state", "until"];
    let next = "next: `countersign approvals show ID`, then `approve` or `decline`\n";
    Ok(Report::new(table(&heading, &rows) + next, json))
}

fn show(context: &Context, id: &str) -> Result<Report, Problem> {
    let held = held(context)?;
    let held = held
        .iter()
        .find(|held| &*held.approval.id == id)
        .ok_or_else(|| unknown(id))?;
    let settings = context.settings()?;
    let account = Account::book_vault();
    let vault = context.secrets(&settings)?.get(&account)?;
    let missing = || SecretsError::Missing {
        account: account.to_string(),
    };
    let vault = vault.ok_or_else(missing)?;
    let vault = vault.key().ok_or_else(|| SecretsError::Malformed {
        account: account.to_string(),
    })?;
    let opened = StateDb::open(&context.folder)?.open_approval(id, &Seal::from_vault(&vault))?;
    let mut json = document(held);
    let mut text = format!(
        "{} asks to call {}/{}\nstate: {}, until {}{}\n",
        plain(agent(held)),
        plain(&held.approval.bound.server),
        plain(&held.approval.bound.tool),
        held.approval.state.text(),
        held.approval.expires_at,
        match held.approval.needs {
            Needs::Person => "",
            Needs::Passkey => "; a yes must be signed with your passkey, in the app",
        }
    );
    match opened {
        None => text.push_str("its arguments are no longer kept\n"),
        Some(opened) => {
            for (name, bytes) in [("arguments", opened.arguments), ("preview", opened.preview)] {
                let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                text.push_str(&format!("{name}:\n{}\n", spelled(&format!("{value:#}"))));
                if let Some(diff) = value.get("diff").and_then(Value::as_str) {
                    let lines: Vec<String> = diff.lines().map(plain).collect();
                    text.push_str(&format!("what would change:\n{}\n", lines.join("\n")));
                }
                json[name] = value;
            }
        }
    }
    if held.approval.state == ApprovalState::Waiting {
        text.push_str(&format!(
            "next: `countersign approvals approve {id}` or `countersign approvals decline {id}`\n"
        ));
    }
    Ok(Report::new(text, json))
}

fn decide(context: &Context, id: &str, verdict: Verdict) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let state = StateDb::open(&context.folder)?;
    let via = match verdict {
        Verdict::Approve => "countersign approvals approve",
        Verdict::Decline => "countersign approvals decline",
    };
    let decided = state.decide(id, verdict, (&By::Person, via), Timestamp::now());
    let now = match decided {
        Ok(now) => now,
        Err(Undecided::Unknown(_)) => return Err(unknown(id)),
        Err(Undecided::Store(fault)) => return Err(fault.into()),
        Err(Undecided::Rule(error)) => {
            let (code, remedy) = match error {
                DecideError::NeedsPasskey => (
                    "passkey_needed",
                    "it can only be declined here; nothing was changed",
                ),
                DecideError::NotWaiting(_) => (
                    "not_waiting",
                    "`countersign approvals list --all` shows how each one stands",
                ),
            };
            return Err(Problem::new(
                code,
                format!("the approval `{}` was not decided: {error}", plain(id)),
                remedy,
            ));
        }
    };
    let what = match verdict {
        Verdict::Approve => {
            "approved: it runs once, when its agent asks for it again or still waits, and only if nothing it would change has changed"
        }
        Verdict::Decline => {
            "declined: it does not run, and the same call is refused for the rest of the day"
        }
    };
    let on_record = owed::bring(context, &settings, &state, &[]);
    Ok(Report::new(
        format!("{what}\n{}", on_record.text()),
        json!({"approval_id": id, "state": now.text(), "on_record": on_record.json()}),
    ))
}

fn held(context: &Context) -> Result<Vec<Held>, Problem> {
    context.settings()?;
    let run = context.folder.run();
    let owner = |process: &str| match is_alive(&run, process) {
        true => Owner::Alive,
        false => Owner::Gone,
    };
    let state = StateDb::open(&context.folder)?;
    let now = Timestamp::now();
    state.sweep_approvals(now, &owner)?;
    Ok(state.approvals(now, LISTED, &owner)?)
}

fn document(held: &Held) -> Value {
    let approval = &held.approval;
    json!({
        "approval_id": &*approval.id, "agent": agent(held), "server": &*approval.bound.server, "tool": &*approval.bound.tool,
        "state": approval.state.text(), "passkey": approval.needs == Needs::Passkey, "call_id": approval.call_id,
        "asked_at": held.created_at.to_string(), "expires_at": approval.expires_at.to_string(),
    })
}

fn agent(held: &Held) -> &str {
    let actor = &*held.approval.bound.actor;
    actor.strip_prefix("agent/").unwrap_or(actor)
}

fn unknown(id: &str) -> Problem {
    Problem::new(
        "approval_unknown",
        format!("there is no approval `{}`", plain(id)),
        "`countersign approvals list --all` shows them",
    )
}

#[cfg(test)]
mod tests {
    use countersign_gate::approval::{Approval, LIFE};
    use countersign_gate::bound::Bound;
    use countersign_gate::ports::Hold;
    use countersign_permission::Hash;

    use super::*;
    use crate::commands::testing::world;
    use crate::store::{Serving, SharedStore};

    fn ask(context: &Context, id: &str, needs: Needs) {
        let now = Timestamp::now();
        let approval = Approval {
            id: id.into(),
            bound: Bound {
                actor: "agent/bar".into(),
                server: "files".into(),
                tool: "write\u{1b}[2J".into(),
                arguments: Hash::of(id.as_bytes()),
            },
            definition: Hash::of(b"d"),
            fingerprint: "f".into(),
            needs,
            state: ApprovalState::Waiting,
            expires_at: now + LIFE,
            call_id: None,
            answer: None,
        };
        let store = SharedStore::open(&context.folder)
            .unwrap()
            .serving(Serving {
                process: "1-a".into(),
                run: context.folder.run(),
                seal: Seal::from_vault(&[1; 32]),
            });
        let hold = Hold {
            approval: &approval,
            arguments: b"{}",
            preview: b"{}",
            now,
        };
        let held = countersign_gate::ports::Store::hold(&store, hold);
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(held)
            .unwrap();
    }

    fn code(result: Result<Report, Problem>) -> String {
        match result {
            Ok(report) => report.json["state"].as_str().unwrap().to_owned(),
            Err(problem) => problem.code.to_owned(),
        }
    }

    #[test]
    fn apr_what_waits_is_listed_and_decided_once() {
        let (_temp, context) = world();
        let listed = |all| list(&context, &ListArgs { all }).unwrap();
        assert_eq!(listed(false).text, "nothing waits for you\n");
        for id in ["A1", "A2"] {
            ask(&context, id, Needs::Person);
        }
        ask(&context, "A3", Needs::Passkey);
        let report = listed(false);
        assert_eq!(report.json["approvals"].as_array().unwrap().len(), 3);
        assert!(report.text.contains("bar") && !report.text.contains('\u{1b}'));
        let decided = |id, verdict| code(decide(&context, id, verdict));
        assert_eq!(decided("A1", Verdict::Approve), "approved");
        assert_eq!(decided("A1", Verdict::Decline), "not_waiting");
        assert_eq!(decided("A2", Verdict::Decline), "rejected");
        assert_eq!(decided("A2", Verdict::Approve), "not_waiting");
        assert_eq!(decided("A3", Verdict::Approve), "passkey_needed");
        assert_eq!(decided("A3", Verdict::Decline), "rejected");
        assert_eq!(decided("A4", Verdict::Approve), "approval_unknown");
        assert_eq!(listed(false).text, "nothing waits for you\n");
        let all = listed(true).json;
        assert_eq!(all["approvals"].as_array().unwrap().len(), 3);
    }
}
