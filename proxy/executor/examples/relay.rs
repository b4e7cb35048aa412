//! The relay alone between standard input and output and a command, for measurements and for the tests of its process handling:
//! `relay [--guardian] COMMAND ARGS…`. Everything is closed here; only what is not decided passes.

use std::sync::Arc;

use bytes::Bytes;
use countersign::downstream::stdio;
use countersign::platform::{Guardian, GuardianProgram, asked_to_stop, guard};
use countersign::relay::gatekeeper::{
    CallUpstream, GatedCall, GatedList, Gatekeeper, Listed, Reach,
};
use countersign::relay::{Client, ProcessStarter, RelaySettings, run};
use countersign::upstream::child::{ChildSpec, environment};
use countersign::upstream::diagnostics::Diagnostics;
use countersign_gate::ports::Pending;
use countersign_gate::{Answer, Code, Outcome, Refusal};
use tokio::sync::watch;

/// Lists everything and lets nothing run.
struct Closed(watch::Sender<u64>);

impl Gatekeeper for Closed {
    fn closed(&self, _reach: Reach) -> Option<Refusal> {
        None
    }

    fn learn(&self, _pages: &[Bytes]) {}

    fn call(
        self: Arc<Self>,
        call: GatedCall,
        _upstream: Arc<CallUpstream>,
    ) -> Pending<'static, Answer> {
        let refusal = Refusal::new(Code::Forbidden, 4, "nothing is open here", "ask the person");
        Box::pin(async move {
            Answer {
                request_id: call.request_id,
                outcome: Outcome::Refused(Box::new(refusal)),
                rate: None,
                replayed: false,
            }
        })
    }

    fn list(self: Arc<Self>, list: GatedList) -> Pending<'static, Listed> {
        Box::pin(async move {
            Listed {
                pages: Ok(list.pages),
                rate: None,
            }
        })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

fn main() -> std::io::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "__guardian") {
        guard();
        return Ok(());
    }
    let guardian = match arguments.first().is_some_and(|first| first == "--guardian") {
        true => Some(Guardian::start(GuardianProgram::this("__guardian")?)?),
        false => None,
    };
    arguments.drain(..usize::from(guardian.is_some()));
    let command = if arguments.is_empty() {
        String::new()
    } else {
        arguments.remove(0)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let streams = stdio::open()?;
        let diagnostics = Diagnostics::new("server", None);
        let spec = ChildSpec {
            name: "server".to_owned(),
            command,
            arguments,
            cwd: None,
            environment: environment(std::env::vars_os(), []),
        };
        let starter = ProcessStarter {
            spec: Arc::new(spec),
            guardian,
            diagnostics: diagnostics.clone(),
        };
        let client = Client {
            input: streams.input,
            output: streams.output,
        };
        let gate = Closed(watch::Sender::new(0));
        run(
            RelaySettings::new("server"),
            client,
            Arc::new(starter),
            Arc::new(gate),
            diagnostics,
            asked_to_stop(),
        )
        .await?;
        drop(streams.restore);
        Ok(())
    })
}
