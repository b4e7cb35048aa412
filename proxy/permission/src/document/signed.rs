//! `countersign.signed/1`: a document with its proof, the portable form. Verifies nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{AnyDocument, Bytes, json as not_json};
use crate::{Reason, Refusal, strict};

const TYPE: &str = "countersign.signed/1";

/// Room for a document and its proofs.
const MAX_BYTES: usize = strict::MAX_BYTES + (64 << 10);

/// `countersign.signed/1`.
///
/// ```json
/// {"type":"countersign.signed/1","document":{…},
///  "proof":{"type":"webauthn.get","credential_id":"…","client_data_json":"…","authenticator_data":"…","signature":"…"}}
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Signed {
    /// What was signed.
    pub document: AnyDocument,
    /// By a trusted key; a revocation has none.
    pub proof: Option<Proof>,
    /// `add` from the second change on: by the added key too.
    pub possession: Option<Proof>,
}

/// A passkey's assertion over a document's hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    #[serde(rename = "type")]
    kind: Get,
    /// The key that signed.
    pub credential_id: Bytes,
    /// The client data as the browser made them.
    pub client_data_json: Bytes,
    /// The authenticator's own part.
    pub authenticator_data: Bytes,
    /// Over both.
    pub signature: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Get {
    #[serde(rename = "webauthn.get")]
    Get,
}

impl Proof {
    /// A proof of these parts.
    #[must_use]
    pub fn new(
        credential_id: Bytes,
        client_data_json: Bytes,
        authenticator_data: Bytes,
        signature: Bytes,
    ) -> Self {
        Self {
            kind: Get::Get,
            credential_id,
            client_data_json,
            authenticator_data,
            signature,
        }
    }
}

impl Signed {
    /// Reads a signed document.
    ///
    /// # Errors
    /// The first reason in the order of [`crate::REASONS`], up to [`Reason::Spelling`], and [`Reason::Times`], [`Reason::Rule`] of the document.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let depth = strict::MAX_DEPTH + 1;
        Self::from_value(strict::parse_within(bytes, MAX_BYTES, depth).map_err(not_json)?)
    }

    /// Reads a signed document from a value.
    ///
    /// # Errors
    /// As [`Signed::parse`].
    pub fn from_value(value: Value) -> Result<Self, Refusal> {
        let Value::Object(mut members) = value else {
            return Err(Reason::Type.because("a signed document is a JSON object with a `type`"));
        };
        match members.shift_remove("type") {
            Some(Value::String(found)) if found == TYPE => {}
            Some(Value::String(found)) => {
                return Err(Reason::Type.because(format!("`{found}` where `{TYPE}` is expected")));
            }
            _ => return Err(Reason::Type.because("the signed document has no `type`")),
        }
        let document = members.shift_remove("document");
        let document = document.ok_or_else(|| Reason::Shape.because("`document` is missing"))?;
        let proof = take(&mut members, "proof")?;
        let possession = take(&mut members, "possession")?;
        if let Some(other) = members.keys().next() {
            return Err(
                Reason::Shape.because(format!("`{other}` is no member of a signed document"))
            );
        }
        Ok(Self {
            document: AnyDocument::from_value(document)?,
            proof,
            possession,
        })
    }

    /// The form as a JSON value.
    ///
    /// # Errors
    /// Never for what was read; kept so that nothing is assumed.
    pub fn to_value(&self) -> Result<Value, Refusal> {
        let document = strict::parse(self.document.to_canonical()).map_err(not_json)?;
        let mut value = json!({"type": TYPE, "document": document});
        for (name, proof) in [("proof", &self.proof), ("possession", &self.possession)] {
            if let (Some(proof), Value::Object(members)) = (proof, &mut value) {
                members.insert(name.into(), json!(proof));
            }
        }
        Ok(value)
    }

    /// The canonical bytes: what is kept.
    ///
    /// # Errors
    /// As [`Signed::to_value`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, Refusal> {
        serde_jcs::to_vec(&self.to_value()?)
            .map_err(|error| Reason::Json.because(error.to_string()))
    }
}

fn take(members: &mut Map<String, Value>, name: &str) -> Result<Option<Proof>, Refusal> {
    let Some(value) = members.shift_remove(name) else {
        return Ok(None);
    };
    serde_path_to_error::deserialize(value)
        .map(Some)
        .map_err(|error| {
            Reason::Shape.because(format!("{name}.{}: {}", error.path(), error.inner()))
        })
}
