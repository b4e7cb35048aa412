"""Verifies signed permissions with nothing of ours: verify.py [--pin FINGERPRINT] FILE…

Prints `verified`, `refused` or `unpinned` and the file, a line each. Exit code 0 when all are verified, 1 when one is refused, 2 when
one is unpinned. What is trusted is written in proxy/permission/FORMAT.md; signatures are judged by the webauthn package, canonical
bytes by rfc8785.
"""

import argparse
import base64
import datetime
import hashlib
import json
import re
import sys

import rfc8785
import webauthn
from webauthn.helpers.exceptions import WebAuthnException

LARGEST = 2**53 - 1
TYPES = ("permission", "approval", "act", "revocation", "keyring-change")


class Refused(Exception):
    """Why a file is refused."""


def need(condition, why):
    if not condition:
        raise Refused(why)


def strict(text, depth):
    """JSON that no two readers read as two things."""

    def members(pairs):
        need(len({name for name, _ in pairs}) == len(pairs), "a member appears twice")
        return dict(pairs)

    def integer(digits):
        need(digits != "-0" and abs(int(digits)) <= LARGEST, "a number that is not a safe integer")
        return int(digits)

    def no(_):
        raise Refused("a number that is not an integer")

    def walk(value, left):
        if isinstance(value, str):
            value.encode("utf-8")
        elif isinstance(value, (list, dict)):
            need(left > 0, "nested too deep")
            for item in value.values() if isinstance(value, dict) else value:
                walk(item, left - 1)
            if isinstance(value, dict):
                "".join(value).encode("utf-8")

    value = json.loads(text, object_pairs_hook=members, parse_int=integer, parse_float=no, parse_constant=no)
    walk(value, depth)
    return value


def raw(text):
    need(isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9_-]*", text), "not base64url")
    found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    need(b64(found) == text, "not base64url")
    return found


def b64(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def sha256(value):
    return "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def moment(text):
    need(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text), "not a time")
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")


def assertion(document, proof, key):
    """V3 to V7."""
    need(set(proof) == {"type", "credential_id", "client_data_json", "authenticator_data", "signature"}, "members of a proof")
    need(proof["type"] == "webauthn.get" and proof["credential_id"] == key["credential_id"], "another passkey")
    client, data = raw(proof["client_data_json"]), raw(proof["authenticator_data"])
    said = strict(client, 16)
    need(said.get("crossOrigin", False) is False, "made in a frame")
    need(not {"topOrigin", "payment", "tokenBinding"} & set(said), "made for something else")
    need(len(data) == 37 if not data[32] & 0x80 else len(data) > 37, "length of the authenticator data")
    need(not data[32] & 0x40, "a registration")
    need(data[32] & 0x18 != 0x10, "synchronised without being able to be")
    webauthn.verify_authentication_response(
        credential={
            "id": key["credential_id"],
            "rawId": key["credential_id"],
            "type": "public-key",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": proof["client_data_json"],
                "authenticatorData": proof["authenticator_data"],
                "signature": proof["signature"],
            },
        },
        expected_challenge=hashlib.sha256(rfc8785.dumps(document)).digest(),
        expected_rp_id=key["rp_id"],
        expected_origin=key["origins"],
        credential_public_key=raw(key["public_key_cose"]),
        credential_current_sign_count=0,
        require_user_verification=True,
    )


class Keyring:
    """V2: the list of passkeys, replayed."""

    def __init__(self, links, pin):
        need(links, "the keyring is empty")
        need(pin is None or sha256(links[0]["document"]) == pin, "another keyring than the pinned one")
        self.executor = links[0]["document"]["executor"]
        self.states = []
        state = {"keys": {}, "code": None, "waiting": None, "at": datetime.datetime.min, "head": None}
        for seq, link in enumerate(links, 1):
            state = self.follow(state, seq, link)
            self.states.append(state)

    def follow(self, before, seq, link):
        change, proof = link["document"], link.get("proof")
        need(change["type"] == "countersign.keyring-change/1", "no change of a keyring")
        need(change["executor"] == self.executor, "another executor")
        need(change["seq"] == seq and change.get("prev") == before["head"], "changes do not follow one another")
        at = max(before["at"], moment(change["at"]))
        keys, waiting, code = dict(before["keys"]), before["waiting"], before["code"]
        if waiting and at >= waiting[1]:
            keys, waiting = {waiting[0]["credential_id"]: waiting[0]}, None
        need(proof is not None, "no proof")
        new = change.get("credential")
        if new:
            need(new["credential_id"] not in before["keys"], "a passkey that is there already")
        if change["op"] == "recover":
            assertion(change, proof, new)
            need(waiting is None, "a recovery is under way")
            spent = hashlib.sha256(b"countersign.recovery/1\n" + change["code"].encode()).hexdigest()
            need(code == "sha256:" + spent, "the recovery code")
            waiting, code = (new, at + datetime.timedelta(days=1)), None
        elif change["op"] == "add":
            signer = new if seq == 1 else keys.get(proof["credential_id"])
            need(signer, "not a trusted passkey")
            assertion(change, proof, signer)
            need(("possession" in link) == (seq > 1), "the new passkey signs too, from the second change on")
            if seq > 1:
                assertion(change, link["possession"], new)
            keys[new["credential_id"]] = new
        else:
            gone = change["credential_id"]
            signer = keys.get(proof["credential_id"])
            need(signer, "not a trusted passkey")
            assertion(change, proof, signer)
            need(proof["credential_id"] != gone or len(keys) == 1, "revoked by itself")
            if waiting and waiting[0]["credential_id"] == gone:
                waiting = None
            else:
                need(keys.pop(gone, None), "revoked without being there")
        return {"keys": keys, "code": change.get("recovery", code), "waiting": waiting, "at": at, "head": sha256(change)}

    def key(self, named, credential_id, at):
        need(1 <= named["seq"] <= len(self.states), "a keyring that never was")
        state = self.states[named["seq"] - 1]
        need(state["head"] == named["head"], "a keyring that never was")
        waiting = state["waiting"]
        keys = {waiting[0]["credential_id"]: waiting[0]} if waiting and at >= waiting[1] else state["keys"]
        need(credential_id in keys, "not a trusted passkey")
        return keys[credential_id]


def rules(document):
    """V8, as far as a signature could cover what it should not."""
    kind = document["type"].removeprefix("countersign.").removesuffix("/1")
    need(kind in TYPES and document["type"] == f"countersign.{kind}/1", "an unknown type")
    if kind in ("permission", "approval", "act"):
        issued, ends = moment(document["issued_at"]), moment(document["expires_at"])
        starts = moment(document.get("not_before", document["issued_at"]))
        life = datetime.timedelta(days=365) if kind == "permission" else datetime.timedelta(minutes=5)
        need(issued <= starts < ends and ends - issued <= life, "times")
    for server in document.get("servers", []):
        for tool in server["tools"]:
            need(tool.get("limits", {}).get("rate", {}).get("per_seconds", 1) > 0, "a rate over nothing")


def judge(text, pin):
    bundle = strict(text, 19)
    need(set(bundle) == {"type", "keyring", "signed"} and bundle["type"] == "countersign.bundle/1", "no bundle")
    need(bundle["signed"], "no document")
    for signed in bundle["keyring"] + bundle["signed"]:
        need(signed["type"] == "countersign.signed/1" and set(signed) <= {"type", "document", "proof", "possession"}, "no signed form")
        strict(json.dumps(signed["document"]), 16)
        rules(signed["document"])
    keyring = Keyring(bundle["keyring"], pin)
    for signed in bundle["signed"]:
        document = signed["document"]
        executor = document["executor"]
        if document["type"] == "countersign.keyring-change/1":
            heads = [state["head"] for state in keyring.states]
            need(sha256(document) in heads and signed == bundle["keyring"][heads.index(sha256(document))], "not in the keyring")
            continue
        if document["type"] == "countersign.revocation/1":
            need(set(signed) == {"type", "document"}, "a revocation has no proof")
        else:
            need("proof" in signed and "possession" not in signed, "one proof")
            at = moment(document["issued_at"])
            assertion(document, signed["proof"], keyring.key(document["keyring"], signed["proof"]["credential_id"], at))
        need(executor["id"] == keyring.executor, "another executor")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--pin")
    arguments.add_argument("files", nargs="+")
    asked = arguments.parse_args()
    worst = 0
    for name in asked.files:
        with open(name, "rb") as file:
            text = file.read()
        try:
            judge(text, asked.pin)
            said, code = ("verified", 0) if asked.pin else ("unpinned", 2)
        except (Refused, WebAuthnException, ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError) as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            said, code = "refused", 1
        print(said, name)
        worst = 1 if 1 in (worst, code) else max(worst, code)
    sys.exit(worst)


if __name__ == "__main__":
    main()
