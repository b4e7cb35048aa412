// Verifies signed permissions with nothing of ours: node verify.mjs [--pin FINGERPRINT] FILE…
//
// Prints `verified`, `refused` or `unpinned` and the file, a line each; exit code 0, 1, 2. What is trusted is written in
// proxy/permission/FORMAT.md; signatures are judged by @simplewebauthn/server, canonical bytes by canonicalize.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { verifyAuthenticationResponse } from "@simplewebauthn/server";
import canonicalize from "canonicalize";

const TYPES = ["permission", "approval", "act", "revocation", "keyring-change"].map((name) => `countersign.${name}/1`);
const DAY = 86_400_000;

function need(condition, why) {
  if (!condition) throw new Error(why);
}

// JSON.parse forgets repeated members and digits, so the text is read here.
function strict(text, depth) {
  let at = 0;
  const blank = () => { while (" \t\n\r".includes(text[at]) && at < text.length) at += 1; };
  const take = (letter) => { need(text[at] === letter, `\`${letter}\` expected at ${at}`); at += 1; };
  const string = () => {
    const found = /^"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/.exec(text.slice(at));
    need(found, "not a text");
    at += found[0].length;
    const read = JSON.parse(found[0]);
    need(read.isWellFormed(), "a lone surrogate");
    return read;
  };
  const list = (open, close, left, item) => {
    need(left > 0, "nested too deep");
    take(open);
    blank();
    if (text[at] === close) { at += 1; return; }
    for (;;) {
      item(left - 1);
      blank();
      if (text[at] === close) { at += 1; return; }
      take(",");
      blank();
    }
  };
  const value = (left) => {
    blank();
    if (text[at] === "{") {
      const members = {};
      list("{", "}", left, (below) => {
        const name = string();
        need(!Object.hasOwn(members, name), "a member appears twice");
        blank();
        take(":");
        Object.defineProperty(members, name, { value: value(below), enumerable: true, configurable: true, writable: true });
      });
      return members;
    }
    if (text[at] === "[") {
      const items = [];
      list("[", "]", left, (below) => items.push(value(below)));
      return items;
    }
    if (text[at] === '"') return string();
    const word = /^(?:true|false|null|-?(?:0|[1-9][0-9]*))(?![0-9a-zA-Z.+-])/.exec(text.slice(at, at + 24));
    need(word && word[0] !== "-0", "not a safe integer");
    at += word[0].length;
    const read = JSON.parse(word[0]);
    need(typeof read !== "number" || Number.isSafeInteger(read), "not a safe integer");
    return read;
  };
  const read = value(depth);
  blank();
  need(at === text.length, "something follows");
  return read;
}

const digest = (bytes) => createHash("sha256").update(bytes).digest();
const sha256 = (document) => `sha256:${digest(canonicalize(document)).toString("hex")}`;

function raw(text) {
  const found = Buffer.from(text, "base64url");
  need(found.toString("base64url") === text, "not base64url");
  return found;
}

function moment(text) {
  need(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(text), "not a time");
  const found = Date.parse(text);
  need(!Number.isNaN(found) && new Date(found).toISOString().replace(".000Z", "Z") === text, "not a time");
  return found;
}

// V3 to V7.
async function assertion(document, proof, key) {
  need(Object.keys(proof).sort().join() === "authenticator_data,client_data_json,credential_id,signature,type", "members of a proof");
  need(proof.type === "webauthn.get" && proof.credential_id === key.credential_id, "another passkey");
  const data = raw(proof.authenticator_data);
  const said = strict(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw(proof.client_data_json)), 16);
  need([undefined, false].includes(said.crossOrigin), "made in a frame");
  need(!["topOrigin", "payment", "tokenBinding"].some((name) => Object.hasOwn(said, name)), "made for something else");
  need(data[32] & 0x80 ? data.length > 37 : data.length === 37, "length of the authenticator data");
  need(!(data[32] & 0x40), "a registration");
  need((data[32] & 0x18) !== 0x10, "synchronised without being able to be");
  const answer = await verifyAuthenticationResponse({
    response: {
      id: key.credential_id, rawId: key.credential_id, type: "public-key", clientExtensionResults: {},
      response: { clientDataJSON: proof.client_data_json, authenticatorData: proof.authenticator_data, signature: proof.signature },
    },
    expectedChallenge: digest(canonicalize(document)).toString("base64url"),
    expectedOrigin: key.origins,
    expectedRPID: key.rp_id,
    credential: { id: key.credential_id, publicKey: new Uint8Array(raw(key.public_key_cose)), counter: 0 },
    requireUserVerification: true,
  });
  need(answer.verified, "the signature");
}

// V2: the list of passkeys, replayed.
async function replay(links, pin) {
  need(links.length > 0, "the keyring is empty");
  need(!pin || sha256(links[0].document) === pin, "another keyring than the pinned one");
  const states = [];
  let state = { keys: new Map(), code: undefined, waiting: undefined, at: -Infinity, head: undefined };
  for (const [place, link] of links.entries()) {
    state = await follow(state, place + 1, link, links[0].document.executor);
    states.push(state);
  }
  return { executor: links[0].document.executor, states };
}

async function follow(before, seq, link, executor) {
  const { document: change, proof } = link;
  need(change.type === "countersign.keyring-change/1", "no change of a keyring");
  need(change.executor === executor, "another executor");
  need(change.seq === seq && change.prev === before.head, "changes do not follow one another");
  need(proof, "no proof");
  const at = Math.max(before.at, moment(change.at));
  let { waiting, code } = before;
  let keys = new Map(before.keys);
  if (waiting && at >= waiting.from) {
    keys = new Map([[waiting.key.credential_id, waiting.key]]);
    waiting = undefined;
  }
  const fresh = change.credential;
  need(!fresh || !before.keys.has(fresh.credential_id), "a passkey that is there already");
  const signer = () => {
    const found = keys.get(proof.credential_id);
    need(found, "not a trusted passkey");
    return found;
  };
  if (change.op === "recover") {
    await assertion(change, proof, fresh);
    need(!waiting, "a recovery is under way");
    need(code === `sha256:${digest(`countersign.recovery/1\n${change.code}`).toString("hex")}`, "the recovery code");
    waiting = { key: fresh, from: at + DAY };
    code = undefined;
  } else if (change.op === "add") {
    await assertion(change, proof, seq === 1 ? fresh : signer());
    need((link.possession !== undefined) === seq > 1, "the new passkey signs too, from the second change on");
    if (seq > 1) await assertion(change, link.possession, fresh);
    keys.set(fresh.credential_id, fresh);
  } else {
    await assertion(change, proof, signer());
    need(proof.credential_id !== change.credential_id || keys.size === 1, "revoked by itself");
    if (waiting?.key.credential_id === change.credential_id) waiting = undefined;
    else need(keys.delete(change.credential_id), "revoked without being there");
  }
  return { keys, code: change.recovery ?? code, waiting, at, head: sha256(change) };
}

function trusted(keyring, named, id, at) {
  const state = keyring.states[named.seq - 1];
  need(state && state.head === named.head, "a keyring that never was");
  const { waiting } = state;
  const keys = waiting && at >= waiting.from ? new Map([[waiting.key.credential_id, waiting.key]]) : state.keys;
  need(keys.has(id), "not a trusted passkey");
  return keys.get(id);
}

// V8, as far as a signature could cover what it should not.
function rules(document) {
  need(TYPES.includes(document.type), "an unknown type");
  if (document.issued_at !== undefined) {
    const [issued, ends] = [moment(document.issued_at), moment(document.expires_at)];
    const starts = moment(document.not_before ?? document.issued_at);
    const life = document.type === "countersign.permission/1" ? 365 * DAY : 300_000;
    need(issued <= starts && starts < ends && ends - issued <= life, "times");
  }
  for (const tool of (document.servers ?? []).flatMap((server) => server.tools)) {
    need((tool.limits?.rate?.per_seconds ?? 1) > 0, "a rate over nothing");
  }
}

async function judge(bytes, pin) {
  const bundle = strict(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes), 19);
  need(Object.keys(bundle).sort().join() === "keyring,signed,type" && bundle.type === "countersign.bundle/1", "no bundle");
  need(bundle.signed.length > 0, "no document");
  for (const signed of [...bundle.keyring, ...bundle.signed]) {
    const known = Object.keys(signed).every((name) => ["type", "document", "proof", "possession"].includes(name));
    need(known && signed.type === "countersign.signed/1", "no signed form");
    strict(JSON.stringify(signed.document), 16);
    rules(signed.document);
  }
  const keyring = await replay(bundle.keyring, pin);
  for (const signed of bundle.signed) {
    const { document } = signed;
    if (document.type === "countersign.keyring-change/1") {
      const place = keyring.states.findIndex((state) => state.head === sha256(document));
      need(place >= 0 && canonicalize(signed) === canonicalize(bundle.keyring[place]), "not in the keyring");
      continue;
    }
    if (document.type === "countersign.revocation/1") {
      need(!signed.proof && !signed.possession, "a revocation has no proof");
    } else {
      need(signed.proof && !signed.possession, "one proof");
      const key = trusted(keyring, document.keyring, signed.proof.credential_id, moment(document.issued_at));
      await assertion(document, signed.proof, key);
    }
    need(document.executor.id === keyring.executor, "another executor");
  }
}

const files = process.argv.slice(2);
const pin = files[0] === "--pin" ? files.splice(0, 2)[1] : undefined;
let worst = 0;
for (const name of files) {
  let [said, code] = pin ? ["verified", 0] : ["unpinned", 2];
  try {
    await judge(readFileSync(name), pin);
  } catch (error) {
    console.error(`${name}: ${error.message}`);
    [said, code] = ["refused", 1];
  }
  console.log(said, name);
  worst = worst === 1 || code === 1 ? 1 : Math.max(worst, code);
}
process.exitCode = worst;
