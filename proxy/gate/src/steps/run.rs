//! Step 13: forward, once.

use super::call::{Call, Ended, Noted, Ran};
use crate::facts::Facts;
use crate::ports::Ports;

pub(super) async fn step(
    _: &Facts,
    ports: &Ports<'_>,
    call: Call<Noted>,
) -> Result<Call<Ran>, Ended> {
    let Call {
        base,
        stage: Noted { cleared, takes },
    } = call;
    let kind = cleared.kind();
    let ran = ports.upstream.run(cleared).await;
    Ok(Call {
        base,
        stage: Ran { kind, takes, ran },
    })
}
