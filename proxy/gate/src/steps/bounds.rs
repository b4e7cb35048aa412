//! Steps 7 and 8 until they can judge paths: every write of an agent that is bounded by a write policy is refused. Knows no path.

/// Step 7: the executor's own files. No path is resolved yet, so nothing is judged here.
pub(super) mod protect {
    use super::super::call::{Call, Ended, Protected, Validated};
    use crate::facts::Facts;
    use crate::ports::Ports;

    pub(in crate::steps) async fn step(
        _: &Facts,
        _: &Ports<'_>,
        call: Call<Validated>,
    ) -> Result<Call<Protected>, Ended> {
        let Call {
            base,
            stage: Validated(judged),
        } = call;
        Ok(Call {
            base,
            stage: Protected(judged),
        })
    }
}

/// Step 8: bounded writes.
pub(super) mod write_policy {
    use countersign_permission::Kind;

    use super::super::call::{Bounded, Call, Ended, Protected, Wanted};
    use super::super::ending::cannot_hold;
    use crate::facts::Facts;
    use crate::ports::Ports;

    pub(in crate::steps) async fn step(
        _: &Facts,
        _: &Ports<'_>,
        call: Call<Protected>,
    ) -> Result<Call<Bounded>, Ended> {
        let Call {
            base,
            stage: Protected(judged),
        } = call;
        let subject = &judged.subject;
        let bounded = subject
            .who
            .agent()
            .is_some_and(|agent| agent.facts.has_write_policy);
        if let (Wanted::Tool(tool), Kind::Write, true) = (&subject.target, subject.kind, bounded) {
            let why = "this agent's writes are bounded by a write policy";
            let refusal = cannot_hold(8, &tool.name, "write_policy", why);
            return Err(base.refused(refusal, judged.subject, judged.decisions));
        }
        Ok(Call {
            base,
            stage: Bounded(judged),
        })
    }
}
