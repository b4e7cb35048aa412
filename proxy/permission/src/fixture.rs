//! An executor, its passkeys and its documents, for the tests of this crate. Everything follows from seeds.

use serde_json::{Value, json};

use crate::document::{
    AnyDocument, ApprovalDocument, Body, Bytes, Document, KeyringChange, KeyringRef,
    PermissionDocument, Proof, RecoveryCode, Revocation, Signed,
};
use crate::keyring::{Keyring, Link, Pin};
use crate::soft::{SoftAlgorithm, SoftPasskey};
use crate::{Hash, Refusal};

pub(crate) const EXECUTOR: &str = "6f0c0000-0000-4000-8000-00000000000a";
pub(crate) const KEY: &str = "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
pub(crate) const ORIGIN: &str = "countersign.localhost/book/abcdefghijklmnopqrstuvwxyz";
pub(crate) const RP: &str = "countersign.localhost";

/// A growing keyring.
pub(crate) struct Ring {
    pub(crate) links: Vec<Signed>,
}

pub(crate) fn phone() -> SoftPasskey {
    SoftPasskey::new("phone", SoftAlgorithm::Es256, RP)
}

pub(crate) fn stick() -> SoftPasskey {
    SoftPasskey::new("stick", SoftAlgorithm::EdDsa, RP)
}

pub(crate) fn laptop() -> SoftPasskey {
    SoftPasskey::new("laptop", SoftAlgorithm::Es256, RP)
}

pub(crate) fn stranger() -> SoftPasskey {
    SoftPasskey::new("stranger", SoftAlgorithm::Es256, RP)
}

pub(crate) fn code() -> RecoveryCode {
    RecoveryCode::from_bytes([7; 16])
}

pub(crate) fn time(text: &str) -> jiff::Timestamp {
    text.parse().unwrap()
}

pub(crate) fn hash(text: &str) -> Hash {
    Hash::of(text.as_bytes())
}

impl Ring {
    /// The phone alone, with a recovery code.
    pub(crate) fn one() -> Self {
        let mut ring = Self { links: Vec::new() };
        let change = ring.change("add", "2026-11-01T00:00:00Z", |change| {
            change["credential"] = json!(phone().credential("Phone"));
            change["recovery"] = json!(code().hash());
        });
        ring.push(&change, Some(&phone()), None);
        ring
    }

    /// The phone and the stick.
    pub(crate) fn two() -> Self {
        let mut ring = Self::one();
        let change = ring.change("add", "2026-11-01T00:01:00Z", |change| {
            change["credential"] = json!(stick().credential("Stick"));
        });
        ring.push(&change, Some(&phone()), Some(&stick()));
        ring
    }

    /// The next change.
    pub(crate) fn change(&self, op: &str, at: &str, rest: impl FnOnce(&mut Value)) -> Value {
        let seq = self.links.len() + 1;
        let mut change = json!({
            "type": KeyringChange::TYPE, "seq": seq, "executor": EXECUTOR, "op": op, "at": at,
            "nonce": "AAAAAAAAAAAAAAAAAAAAAA",
        });
        if let Some(last) = self.links.last() {
            change["prev"] = json!(last.document.hash());
        }
        rest(&mut change);
        change
    }

    pub(crate) fn push(
        &mut self,
        change: &Value,
        by: Option<&SoftPasskey>,
        possession: Option<&SoftPasskey>,
    ) {
        let document = AnyDocument::from_value(change.clone()).unwrap();
        let proof = |key: &SoftPasskey| key.sign(document.hash());
        self.links.push(Signed {
            proof: by.map(proof),
            possession: possession.map(proof),
            document: document.clone(),
        });
    }

    pub(crate) fn replay(&self) -> Result<Keyring, Refusal> {
        self.replay_with(None)
    }

    pub(crate) fn replay_with(&self, pin: Option<&Pin>) -> Result<Keyring, Refusal> {
        let links: Vec<_> = self
            .links
            .iter()
            .map(|signed| Link {
                signed,
                recorded: None,
            })
            .collect();
        Keyring::replay(&links, pin)
    }

    pub(crate) fn keyring(&self) -> Keyring {
        self.replay().unwrap()
    }

    pub(crate) fn head(&self) -> KeyringRef {
        self.keyring().head()
    }
}

/// A permission with a bit of everything.
pub(crate) fn permission_value(head: &KeyringRef) -> Value {
    json!({
        "type": PermissionDocument::TYPE, "id": "MFedjpoQMV2IvRlbRY5qBA",
        "executor": {"id": EXECUTOR, "key": KEY}, "keyring": head,
        "agent": {"name": "claude-desktop", "key": "csk_ab12cd34"},
        "issued_at": "2026-11-30T17:00:00Z", "not_before": "2026-11-30T17:00:00Z", "expires_at": "2027-02-28T17:00:00Z",
        "servers": [{
            "name": "files", "identity": hash("files"), "env": {"LOG": "info", "TOKEN": {"secret": "files/TOKEN"}},
            "pass": ["roots"],
            "tools": [
                {"name": "read_text_file", "definition": hash("read"), "kind": "read"},
                {"name": "write_file", "definition": hash("write"), "kind": "write", "danger": "always", "approval": "passkey",
                 "limits": {"max_calls": 50, "rate": {"per_seconds": 3600, "max": 10}},
                 "arguments": [{"pointer": "/path", "op": "prefix", "value": "/home/maria/Documents/"}],
                 "paths": [{"pointer": "/path", "effect": "write"}],
                 "preview": {"reads": [{"tool": "read_text_file", "arguments": {"path": {"from": "/path"}}}], "diff": {"new": "/content"}}},
            ],
        }],
        "mode": "auto",
        "write_policy": {"version": 1, "allow_writes": ["notes/**"], "deny_writes": ["**/private/**"], "shell": "disabled"},
        "workspace": "/home/maria/Documents",
        "book": {"origin": ORIGIN, "reads": true}, "purpose": "Sort my notes",
    })
}

pub(crate) fn permission(head: &KeyringRef) -> Document<PermissionDocument> {
    Document::from_value(permission_value(head)).unwrap()
}

/// The arguments of the approved call.
pub(crate) const ARGUMENTS: &[u8] = br#"{"content":"hello","path":"/home/maria/Documents/a.txt"}"#;

pub(crate) fn approval_value(head: &KeyringRef) -> Value {
    let id = "AAAAAAAAAAAAAAAAAAAAAA";
    json!({
        "type": ApprovalDocument::TYPE, "id": id, "executor": {"id": EXECUTOR, "key": KEY}, "keyring": head,
        "permission": permission(head).hash(), "agent": {"name": "claude-desktop", "key": "csk_ab12cd34"},
        "server": {"name": "files", "identity": hash("files")}, "tool": {"name": "write_file", "definition": hash("write")},
        "arguments": {"commitment": crate::document::commitment(&[9; 32], id.parse().unwrap(), ARGUMENTS), "hash": Hash::of(ARGUMENTS)},
        "fingerprint": "00ff", "issued_at": "2026-11-30T18:00:00Z", "expires_at": "2026-11-30T18:05:00Z",
    })
}

pub(crate) fn act_value(head: &KeyringRef) -> Value {
    json!({
        "type": "countersign.act/1", "id": "AAAAAAAAAAAAAAAAAAAAAA", "executor": {"id": EXECUTOR, "key": KEY}, "keyring": head,
        "act": {"turn_open": {"agent": "claude-desktop"}},
        "issued_at": "2026-11-30T18:00:00Z", "expires_at": "2026-11-30T18:05:00Z",
    })
}

pub(crate) fn revocation(revokes: &Value) -> Document<Revocation> {
    Document::from_value(json!({
        "type": Revocation::TYPE, "id": "AAAAAAAAAAAAAAAAAAAAAA", "executor": {"id": EXECUTOR, "key": KEY},
        "revokes": revokes, "at": "2026-12-01T00:00:00Z",
    }))
    .unwrap()
}

/// The document with a proof of this key.
pub(crate) fn signed(value: Value, key: &SoftPasskey) -> Signed {
    let document = AnyDocument::from_value(value).unwrap();
    Signed {
        proof: Some(key.sign(document.hash())),
        possession: None,
        document,
    }
}

/// The proof with one part replaced.
pub(crate) fn with(proof: &Proof, change: impl FnOnce(&mut Proof)) -> Proof {
    let mut other = proof.clone();
    change(&mut other);
    other
}

pub(crate) fn flipped(bytes: &Bytes, bit: usize) -> Bytes {
    let mut other = bytes.as_slice().to_vec();
    other[bit / 8] ^= 1 << (bit % 8);
    other.into()
}
