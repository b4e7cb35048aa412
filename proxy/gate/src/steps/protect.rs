//! Step 7: the executor's own files are written by no tool, and what holds its secrets is read by none, whoever calls. Joins a call to
//! [`crate::paths::Protect`], which judges; has no rule of its own.

use countersign_permission::Kind;

use super::call::{Call, Denied, Ended, Protected, Subject, Validated, Wanted};
use crate::bound::object;
use crate::facts::Facts;
use crate::paths::{Declared, Effect, Protect};
use crate::ports::Ports;

pub(super) async fn step(
    facts: &Facts,
    ports: &Ports<'_>,
    call: Call<Validated>,
) -> Result<Call<Protected>, Ended> {
    let Call {
        base,
        stage: Validated(judged),
    } = call;
    let subject = &judged.subject;
    let bases = bases(facts, subject);
    let protect = Protect {
        files: ports.files,
        holdings: ports.holdings,
        bases: &bases,
        declared: declared(subject),
        effect: match subject.kind {
            Kind::Read => Effect::Read,
            Kind::Write => Effect::Write,
        },
    };
    if let Err(trespass) = protect.check(object(subject.sent.as_deref())) {
        let refusal = trespass.refusal(subject.target.name());
        let denial = Denied::As(Box::new(trespass.note()));
        return Err(base.denied(refusal, judged.subject, judged.decisions, denial));
    }
    Ok(Call {
        base,
        stage: Protected(judged),
    })
}

/// The tool's declared arguments; a method has none, so each of its texts may be a path.
pub(super) fn declared(subject: &Subject) -> &[Declared] {
    match &subject.target {
        Wanted::Tool(tool) => &tool.settings.paths,
        Wanted::Method { .. } | Wanted::Whoami | Wanted::Approval => &[],
    }
}

/// The folder the server takes relative paths from.
pub(super) fn cwd<'a>(facts: &'a Facts, subject: &Subject) -> Option<&'a str> {
    let server = match &subject.target {
        Wanted::Tool(tool) => &tool.server,
        Wanted::Method { server, .. } => server,
        Wanted::Whoami | Wanted::Approval => return None,
    };
    facts.server(server)?.cwd.as_deref()
}

/// Where a relative path may begin: at the agent's workspace, and at the server's folder.
fn bases(facts: &Facts, subject: &Subject) -> Vec<String> {
    let agent = subject.who.agent();
    let workspace = agent.and_then(|agent| agent.facts.workspace.as_deref());
    let both = workspace.into_iter().chain(cwd(facts, subject));
    both.map(String::from).collect()
}
