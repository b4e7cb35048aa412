//! How an entry of executor.json becomes a process: its command, folder and environment, secrets put in at the last moment. Reads the
//! settings at every start, so a restarted server is the one that is configured now; starts nothing for a switched-off executor.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use countersign_gate::ports::Pending;

use crate::keeper::Keeper;
use crate::platform::Guardian;
use crate::relay::methods::{Feature, Passing};
use crate::relay::{ProcessStarter, Running, Starter};
use crate::settings::{Launch, Name, Pass, Server, Setting, State};
use crate::upstream::child::{ChildSpec, StartError, environment};
use crate::upstream::diagnostics::Diagnostics;

/// Starts one server of executor.json.
pub struct ServerStarter {
    keeper: Arc<Keeper>,
    server: Name,
    guardian: Option<Guardian>,
    diagnostics: Diagnostics,
}

impl ServerStarter {
    /// A starter of `server`; what it says goes to `diagnostics`.
    #[must_use]
    pub fn new(
        keeper: Arc<Keeper>,
        server: &Name,
        guardian: Option<Guardian>,
        diagnostics: Diagnostics,
    ) -> Self {
        Self {
            keeper,
            server: server.clone(),
            guardian,
            diagnostics,
        }
    }
}

impl Starter for ServerStarter {
    fn start(&self) -> Pending<'static, Result<Running, StartError>> {
        let (keeper, server) = (Arc::clone(&self.keeper), self.server.clone());
        let (guardian, diagnostics) = (self.guardian.clone(), self.diagnostics.clone());
        Box::pin(async move {
            let snapshot = keeper.settings().now();
            let settings = match &snapshot.state {
                State::Ready(settings) => Arc::clone(settings),
                State::Off(_) => {
                    return Err(no(
                        &server,
                        "the executor is switched off; `countersign on` switches it on again",
                    ));
                }
                State::Broken(problem) => return Err(no(&server, &problem.to_string())),
            };
            let entry = settings
                .server(server.as_str())
                .ok_or_else(|| no(&server, "it is no longer in executor.json"))?;
            if !entry.entry.enabled.0 {
                return Err(no(&server, "it is switched off"));
            }
            let secrets = match entry.secrets().next() {
                None => Vec::new(),
                Some(_) => {
                    let opened = keeper
                        .opened()
                        .await
                        .map_err(|problem| no(&server, &problem.to_string()))?;
                    diagnostics.hide(opened.values().iter().filter_map(|(_, value)| value.text()));
                    opened.values().to_vec()
                }
            };
            let spec = Arc::new(spec(entry, &secrets)?);
            ProcessStarter {
                spec,
                guardian,
                diagnostics,
            }
            .start()
            .await
        })
    }
}

/// What an entry lets through beyond the specification's tables.
#[must_use]
pub fn passing(server: &Server) -> Passing {
    let features = server.entry.pass.iter().map(|pass| match pass {
        Pass::Roots => Feature::Roots,
        Pass::Sampling => Feature::Sampling,
        Pass::Elicitation => Feature::Elicitation,
    });
    Passing {
        features: features.collect(),
        methods: server.entry.methods.clone(),
    }
}

/// What is started for an entry. `secrets` are (variable, value).
///
/// # Errors
/// When the entry has no command or one of its secrets has no value.
pub fn spec(
    server: &Server,
    secrets: &[(String, crate::secrets::Secret)],
) -> Result<ChildSpec, StartError> {
    let Launch::Child {
        command,
        args,
        cwd,
        env,
    } = &server.launch
    else {
        return Err(no(
            &server.name,
            "it is reached by HTTP, which this version cannot do",
        ));
    };
    let mut entry: Vec<(OsString, OsString)> = Vec::with_capacity(env.len());
    for (name, value) in env {
        let value = match value {
            Setting::Text(text) => text.clone(),
            Setting::Secret(secret) => secrets
                .iter()
                .find(|(variable, _)| variable == name)
                .and_then(|(_, value)| value.text())
                .ok_or_else(|| {
                    no(
                        &server.name,
                        &format!(
                            "the secret `{secret}` has no value; `countersign secret set {secret}`"
                        ),
                    )
                })?
                .to_owned(),
        };
        entry.push((name.into(), value.into()));
    }
    Ok(ChildSpec {
        name: server.name.to_string(),
        command: command.clone(),
        arguments: args.clone(),
        cwd: cwd.as_ref().map(Into::into),
        environment: environment(std::env::vars_os(), entry),
    })
}

fn no(server: &Name, why: &str) -> StartError {
    StartError::Spawn {
        command: server.to_string(),
        source: io::Error::other(why.to_owned()),
    }
}
