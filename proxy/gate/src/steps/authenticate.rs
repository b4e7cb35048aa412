//! Step 3: the key says which agent it is; its effective scopes are computed here, once for this request, and never looked up again.

use std::net::IpAddr;

use super::call::{Agent, Authenticated, Call, Ended, UrlClean, Who};
use super::ending::stateless;
use crate::facts::Facts;
use crate::key::KeyMac;
use crate::ports::{KeyRecord, Ports, StoreError};
use crate::rate::BucketId;
use crate::refusal::{Code, Refusal};
use crate::request::Audience;

pub(super) async fn step(
    facts: &Facts,
    ports: &Ports<'_>,
    call: Call<UrlClean>,
) -> Result<Call<Authenticated>, Ended> {
    if call.base.request.audience == Audience::Public {
        let network = network_bucket(call.base.request.network);
        return Ok(call.at(Authenticated {
            who: Who::Public { network },
        }));
    }
    match authenticate(facts, ports, &call).await {
        Ok(Some(agent)) => Ok(call.at(Authenticated {
            who: Who::Agent(Box::new(agent)),
        })),
        Ok(None) => Err(call.base.counted(unauthorized(), None)),
        Err(error) => Err(call.base.counted(stateless(3, &error), None)),
    }
}

async fn authenticate(
    facts: &Facts,
    ports: &Ports<'_>,
    call: &Call<UrlClean>,
) -> Result<Option<Agent>, StoreError> {
    let Some(key) = &call.base.request.credential else {
        return Ok(None);
    };
    let Some(prefix) = key.prefix() else {
        return Ok(None);
    };
    let record = ports.store.key(prefix).await?;
    // Compared even where nothing was found, so that both take the same time.
    let stored = record
        .as_ref()
        .map_or(KeyMac::from_bytes([0; 32]), |record| record.mac.clone());
    let matches = key.mac(ports.pepper) == stored;
    let Some(record) = record.filter(|_| matches) else {
        return Ok(None);
    };
    Ok(holds(facts, &record, prefix, call.base.arrived))
}

/// The agent of a key that is its own, if the key holds now.
fn holds(facts: &Facts, record: &KeyRecord, prefix: &str, now: jiff::Timestamp) -> Option<Agent> {
    let agent = facts
        .agents
        .get(&record.agent)
        .filter(|agent| agent.key_prefix == prefix)?;
    let expires_at = match (record.expires_at, agent.expires_at) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    if record.revoked_at.is_some() || expires_at.is_some_and(|end| now >= end) {
        return None;
    }
    let mut agent = super::rights::agent(facts, agent, record.scopes.as_deref(), now);
    agent.expires_at = expires_at;
    Some(agent)
}

/// One wording for no key, a malformed, unknown, revoked or expired one.
fn unauthorized() -> Refusal {
    Refusal::new(
        Code::Unauthorized,
        3,
        "no key was presented, or it does not hold",
        "Ask the person for a key that holds: `countersign agent add` makes one.",
    )
}

/// IPv4 /32 (also when mapped into IPv6), IPv6 /64.
fn network_bucket(address: Option<IpAddr>) -> BucketId {
    let text = match address.map(|address| address.to_canonical()) {
        None => "unknown".to_string(),
        Some(IpAddr::V4(v4)) => format!("{v4}/32"),
        Some(IpAddr::V6(v6)) => {
            let [a, b, c, d, ..] = v6.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    };
    BucketId::Network(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let cases = [
            (Some("192.0.2.7"), "192.0.2.7/32"),
            (Some("::ffff:192.0.2.7"), "192.0.2.7/32"),
            (Some("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64"),
            (None, "unknown"),
        ];
        for (address, want) in cases {
            assert_eq!(
                network_bucket(address.map(|text| text.parse().unwrap())).owner(),
                want
            );
        }
    }
}
