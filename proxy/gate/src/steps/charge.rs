//! Step 5: the price is taken. An agent pays once, in full; a public caller, who paid one unit before the look-up, pays the rest here,
//! and from its own token's bucket where the tool names one.

use sha2::{Digest, Sha256};

use super::call::{Base, Call, Charged, Ended, Looked, Subject, Visible, Wanted, Who};
use super::ending::stateless;
use super::visible::kind;
use crate::facts::{Facts, MAX_BYTES, ToolSettings};
use crate::json;
use crate::ports::{Charge, Links, Ports};
use crate::price::{Cost, price};
use crate::rate::{BucketId, BucketSize, RateState};
use crate::refusal::{Code, Refusal};
use crate::request::Arguments;

pub(super) async fn step(
    facts: &Facts,
    ports: &Ports<'_>,
    call: Call<Visible>,
) -> Result<Call<Charged>, Ended> {
    let Call {
        mut base,
        stage: Visible { who, target },
    } = call;
    let kind = kind(&who, &target);
    let arguments = look(&base.request.arguments, &target);
    let received = match &base.request.arguments {
        Arguments::Missing => None,
        Arguments::Null => Some(bytes::Bytes::from_static(b"null")),
        Arguments::Raw(raw) => Some(raw.clone()),
    };
    let object = received.as_deref().filter(|_| arguments == Looked::Object);
    let rows = object.map(rows);
    let units = match &target {
        Wanted::Tool(tool) => price(&tool.settings, kind, rows, per(&tool.settings, object)),
        Wanted::Method { .. } | Wanted::Whoami | Wanted::Approval => 1,
    };
    let paid = match &who {
        Who::Agent(_) | Who::Person(_) => {
            charge(facts, ports, &mut base, &bucket(&who), units).await
        }
        Who::Public { network } => {
            public(
                facts,
                ports,
                &mut base,
                network,
                token(&target, object),
                units,
            )
            .await
        }
    };
    if let Err(refusal) = paid {
        return Err(base.counted(refusal, Some(&who)));
    }
    let subject = Subject {
        who,
        target,
        kind,
        rows: rows.unwrap_or(0),
        sent: received.clone(),
        received,
        links: Links::default(),
        rewritten: None,
        turn: None,
        moved: Vec::new(),
    };
    Ok(Call {
        base,
        stage: Charged { subject, arguments },
    })
}

/// Takes `units` from one bucket and keeps how it stands for the answer.
pub(super) async fn charge(
    facts: &Facts,
    ports: &Ports<'_>,
    base: &mut Base,
    bucket: &BucketId,
    units: u32,
) -> Result<(), Refusal> {
    let size = size(facts, bucket);
    let charge = Charge {
        bucket,
        size,
        units,
        now: base.arrived,
    };
    let charged = ports
        .store
        .charge(charge)
        .await
        .map_err(|error| stateless(5, &error))?;
    let state = RateState {
        policy: bucket.class(),
        size,
        charged,
    };
    base.rate = Some(state);
    if charged.taken {
        Ok(())
    } else {
        Err(limited(bucket, units, charged.retry_seconds))
    }
}

/// The bucket a caller pays from first.
pub(super) fn bucket(who: &Who) -> BucketId {
    match who {
        Who::Agent(agent) => BucketId::Key(agent.facts.key_prefix.clone()),
        Who::Person(person) => person.bucket(),
        Who::Public { network } => network.clone(),
    }
}

/// The configured size of a bucket's class.
pub(super) fn size(facts: &Facts, bucket: &BucketId) -> BucketSize {
    match bucket {
        BucketId::Key(_) => facts.buckets.key,
        BucketId::Person(_) => facts.buckets.person,
        BucketId::Network(_) => facts.buckets.network,
        BucketId::Token(_) => facts.buckets.token,
    }
}

async fn public(
    facts: &Facts,
    ports: &Ports<'_>,
    base: &mut Base,
    network: &BucketId,
    token: Option<BucketId>,
    units: u32,
) -> Result<(), Refusal> {
    if let Some(token) = token {
        charge(facts, ports, base, &token, units).await?;
    }
    charge(facts, ports, base, network, units - 1).await
}

fn look(arguments: &Arguments, target: &Wanted) -> Looked {
    let Arguments::Raw(raw) = arguments else {
        return Looked::None;
    };
    let limit = match target {
        Wanted::Tool(tool) => tool.settings.max_bytes,
        Wanted::Method { .. } | Wanted::Whoami | Wanted::Approval => MAX_BYTES,
    };
    if raw.len() as u64 > limit {
        return Looked::TooLarge;
    }
    match json::check(raw, json::MAX_DEPTH) {
        Ok(json::Kind::Object) => Looked::Object,
        Ok(json::Kind::Null) => Looked::None,
        Ok(_) => Looked::Other,
        Err(fault) => Looked::Broken(fault),
    }
}

/// The longest list that is a direct value of the arguments.
fn rows(object: &[u8]) -> u64 {
    let lists = json::members(object).filter(|member| member.value.starts_with(b"["));
    lists
        .map(|member| json::elements(member.value).count() as u64)
        .max()
        .unwrap_or(0)
}

fn per(settings: &ToolSettings, object: Option<&[u8]>) -> u64 {
    let (Some(Cost::Per(pointer)), Some(object)) = (&settings.cost, object) else {
        return 0;
    };
    json::at_pointer(object, pointer).map_or(0, |list| json::elements(list).count() as u64)
}

/// The bucket of the caller's own token; named by its hash, the token is nobody's business.
fn token(target: &Wanted, object: Option<&[u8]>) -> Option<BucketId> {
    let Wanted::Tool(tool) = target else {
        return None;
    };
    let literal = json::member(object?, tool.settings.client_token.as_deref()?)?;
    let text = json::decode(literal)?;
    Some(BucketId::Token(
        data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes())),
    ))
}

fn limited(bucket: &BucketId, units: u32, retry_seconds: u64) -> Refusal {
    let sentence = format!(
        "too many calls for this {}: the call costs {units}, try again in {retry_seconds} s",
        bucket.class()
    );
    let next = format!(
        "Wait {retry_seconds} seconds, then make the call again; fewer or smaller calls wait less."
    );
    Refusal::new(Code::RateLimited, 5, sentence, next)
        .with("bucket", bucket.class().into())
        .with("price", units.into())
        .with("retry_after_seconds", retry_seconds.into())
}
