//! The client data: what the browser says it asked the authenticator for (V5). Judged from the raw bytes.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};

use crate::{Hash, Reason, Refusal, strict};

/// Largest client data, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// Whether these are the client data of an assertion over `document` on one of `origins`. Members not known here may be there.
pub(super) fn check(bytes: &[u8], document: Hash, origins: &[String]) -> Result<(), Refusal> {
    let shape = |words: String| Reason::ClientData.because(format!("client data: {words}"));
    let value = strict::parse_within(bytes, MAX_BYTES, strict::MAX_DEPTH)
        .map_err(|error| shape(error.to_string()))?;
    let Value::Object(members) = value else {
        return Err(shape("not an object".into()));
    };
    let kind = text(&members, "type").map_err(shape)?;
    let challenge = text(&members, "challenge").map_err(shape)?;
    let origin = text(&members, "origin").map_err(shape)?;
    let cross = match members.get("crossOrigin") {
        None => false,
        Some(Value::Bool(cross)) => *cross,
        Some(_) => return Err(shape("`crossOrigin` is neither true nor false".into())),
    };
    if members.contains_key("tokenBinding") {
        return Err(shape("`tokenBinding` is sent by no browser".into()));
    }
    if kind == "payment.get" {
        return Err(Reason::Payment.because("the passkey was asked about a payment"));
    }
    if kind != "webauthn.get" {
        return Err(Reason::Ceremony.because(format!("`{kind}` where `webauthn.get` is expected")));
    }
    if challenge != BASE64URL_NOPAD.encode(document.as_bytes()) {
        return Err(Reason::Challenge.because("the passkey signed another document"));
    }
    if !origins.iter().any(|own| own == origin) {
        return Err(Reason::Origin.because(format!(
            "signed on `{origin}`, not on {}",
            origins.join(" or ")
        )));
    }
    if cross || members.contains_key("topOrigin") {
        return Err(Reason::CrossOrigin.because("signed inside another site's page"));
    }
    if members.contains_key("payment") {
        return Err(Reason::Payment.because("the passkey was asked about a payment"));
    }
    Ok(())
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    members
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("no text `{name}`"))
}
