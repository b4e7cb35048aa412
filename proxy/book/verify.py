#!/usr/bin/env python3
"""Verifies a book with nothing but Python's standard library and the openssl command.

    python3 verify.py FOLDER [VKEY]

FOLDER is the book (it holds the file BOOK). VKEY is the verifier key as known from elsewhere; without it the book's own
word is taken and the answer says so. Exit: 0 whole and signed, 13 bytes after the last checkpoint, 30 payloads missing,
31 changed, 34 signed by a key outside its range, 35 another book, 40 can't be verified, 2 nothing to verify. The format is in
FORMAT.md; numbers of sections below are its own. Objects of the vault are looked for by their first and last bytes; whether the
encrypted bytes between were changed only the vault's key tells, and this program has none.
"""
import base64
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import tempfile

MAX_LINE, MAX_ENTRY, MAX_BATCH, MAX_NOTE = 4 << 20, 65_535, 4096, 32_768
MAX_TAIL, MAX_DEPTH, MAX_NUMBER = 4096 * 65_536, 64, (1 << 53) - 1
VAULT_HEAD = b"countersign vault segment 1\n\n\n\n\n"

# The one form of JSON (section 3.3).
STRING = re.compile(rb'"([^"\\\x00-\x1f]*(?:\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f]))[^"\\\x00-\x1f]*)*)"')
NAME = re.compile(rb"[ !#-\[\]-~]*")
NUMBER = re.compile(rb"(?:0|-?[1-9][0-9]{0,15})(?![0-9.eE])")
WORD = re.compile(rb"true|false")

HASH = re.compile(r"sha256:[0-9a-f]{64}")
ORIGIN = re.compile(r"countersign\.localhost/book/[a-z2-7]{25}[aeimquy4]")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
SIZE = re.compile(r"0|[1-9][0-9]{0,19}")
FIELDS = ("args", "sent", "result")
TARGETS = {name + view for name in FIELDS for view in ("", ".view")}

# Where several things are found, the first of these is the answer (section 6).
ORDER = (35, 31, 34, 40, 30, 13)
# What decides itself, before what comes after it is known: no known key signed; a rotation that is not understood.
UNKNOWN, BEYOND = "unknown", "beyond"


class Flaw(Exception):
    """What is wrong with a line: `kind` is nothing where it was changed, else 34, 40, UNKNOWN or BEYOND."""

    def __init__(self, what, kind=None):
        super().__init__(what)
        self.kind = kind


def need(right, what, kind=None):
    if not right:
        raise Flaw(what, kind)


def regular(path):
    """Opens a regular file; a pipe or a device could be waited for without end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(f"{path} is not a regular file")
    return open(path, "rb")


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def unbase64(text):
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw) != text:
        raise ValueError("base64 in another form")
    return raw


def members(line):
    """The value of a line in the one form of JSON."""

    def value(at, depth):
        start = line[at : at + 1]
        if start in (b"{", b"["):
            need(depth <= MAX_DEPTH, "too many objects and lists are within each other")
            end, before = (b"}", b"]")[start == b"["], None
            at += 1
            if line[at : at + 1] == end:
                return at + 1
            while True:
                if start == b"{":
                    name = STRING.match(line, at)
                    need(name and NAME.fullmatch(name[1]) and line[name.end() : name.end() + 1] == b":", "a member has no plain name")
                    need(before is None or before < name[1], "members are not in order, or one stands twice")
                    before, at = name[1], name.end() + 1
                at = value(at, depth + 1)
                if line[at : at + 1] == end:
                    return at + 1
                need(line[at : at + 1] == b",", "an object or list does not end")
                at += 1
        found = STRING.match(line, at) or NUMBER.match(line, at) or WORD.match(line, at)
        need(found, "a value is not in the one form")
        return found.end()

    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise Flaw("it is not UTF-8") from None
    need(line[:1] == b"{" and value(0, 1) == len(line), "it is not one object")
    parsed = json.loads(text)
    need(plain(parsed), "a number is too large")
    return parsed


def plain(value):
    if isinstance(value, dict):
        return all(plain(inner) for inner in value.values())
    if isinstance(value, list):
        return all(plain(inner) for inner in value)
    return type(value) is not int or abs(value) <= MAX_NUMBER


def is_number(value):
    return type(value) is int and value >= 0


def count(value):
    """A count: a number, or beyond 2^53 - 1 its decimal digits as text. Nothing where it is neither."""
    if is_number(value):
        return value
    if isinstance(value, str) and SIZE.fullmatch(value) and MAX_NUMBER < int(value) < 1 << 64:
        return int(value)
    return None


def is_text(value, form=None):
    return isinstance(value, str) and (form is None or form.fullmatch(value) is not None)


def is_object(value, must, may=()):
    """Whether a value is an object with exactly these members."""
    return isinstance(value, dict) and set(must) <= set(value) <= set(must) | set(may)


class Tree:
    """The compact range of RFC 6962: roots of the perfect subtrees, largest first."""

    def __init__(self, size=0, nodes=()):
        self.size, self.nodes = size, list(nodes)

    def push(self, node):
        size = self.size
        while size & 1:
            node = sha256(b"\x01", self.nodes.pop(), node)
            size >>= 1
        self.nodes.append(node)
        self.size += 1

    def root(self):
        if not self.nodes:
            return sha256()
        root = self.nodes[-1]
        for left in reversed(self.nodes[:-1]):
            root = sha256(b"\x01", left, root)
        return root


P = 2**255 - 19


def is_strong(encoded):
    """Whether 32 bytes are a point of Ed25519's curve that is not of small order (RFC 8032, 5.1.3)."""
    number = int.from_bytes(encoded, "little")
    y, odd = number % (1 << 255) % P, number >> 255
    d = -121665 * pow(121666, -1, P) % P
    u, v = (y * y - 1) % P, (d * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P != u:
        x = x * pow(2, (P - 1) // 4, P) % P
    if v * x * x % P != u:
        return False
    if x & 1 != odd:
        x = -x % P
    z = 1
    for _ in range(3):
        a, b, c = x * x % P, y * y % P, 2 * z * z % P
        e, g = ((x + y) ** 2 - a - b) % P, (b - a) % P
        f, h = (g - c) % P, (-a - b) % P
        x, y, z = e * f % P, g * h % P, f * g % P
    return not (x == 0 and y == z)


def is_name(name):
    return name != "" and "+" not in name and not any(char.isspace() for char in name)


class Key:
    def __init__(self, vkey):
        self.text = vkey
        self.name, key_id, data = vkey.split("+", 2)
        raw = unbase64(data.encode())
        if raw[:1] != b"\x01" or len(raw) != 33 or not is_strong(raw[1:]) or not is_name(self.name):
            raise ValueError("the key is not Ed25519")
        self.id = sha256(self.name.encode(), b"\n", raw)[:4]
        if self.id.hex() != key_id:
            raise ValueError("the key id is not the key's")
        # SubjectPublicKeyInfo of an Ed25519 key (RFC 8410).
        der = bytes.fromhex("302a300506032b6570032100") + raw[1:]
        self.pem = b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(der) + b"\n-----END PUBLIC KEY-----\n"

    def signed(self, text, signature):
        return len(signature) == 64 and is_strong(signature[:32]) and openssl(self.pem, text, signature)


def openssl(pem, text, signature):
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("key", "text", "signature")]
        for path, data in zip(paths, (pem, text, signature)):
            with open(path, "wb") as file:
                file.write(data)
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", paths[0], "-rawin", "-in", paths[1], "-sigfile", paths[2]]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Note:
    """A checkpoint note whose signatures are not verified yet (section 2)."""

    def __init__(self, encoded):
        try:
            note = unbase64(encoded)
            need(len(note) <= MAX_NOTE and not any(byte < 32 and byte != 10 or byte == 127 for byte in note), "not a note")
            text, found, lines = note.decode().rpartition("\n\n")
            self.origin, size, root = text.split("\n")
            self.root = unbase64(root.encode())
            signatures = lines.split("\n")
            need(found and signatures.pop() == "" and 0 < len(signatures) <= 64, "not a note")
            need(self.origin and SIZE.fullmatch(size) and int(size) < 1 << 64 and len(self.root) == 32, "not a checkpoint")
            self.text, self.size, self.signatures = (text + "\n").encode(), int(size), []
            for line in signatures:
                dash, name, data = line.split(" ")
                data = unbase64(data.encode())
                need(dash == "\u2014" and is_name(name) and len(data) > 4, "not a signature line")
                self.signatures.append((name, data[:4], data[4:]))
        except ValueError:
            raise Flaw("not a checkpoint note") from None

    def names(self, key):
        return any((name, key_id) == (key.name, key.id) for name, key_id, _ in self.signatures)

    def verify(self, keys):
        known = {(key.name, key.id): key for key in keys}
        signed = [(known[name, key_id], signature) for name, key_id, signature in self.signatures if (name, key_id) in known]
        need(signed, "no signature by a known key", UNKNOWN)
        need(all(key.signed(self.text, signature) for key, signature in signed), "a signature does not match")


class Ring:
    """Every key a book has had with the sizes it may sign, oldest first: (key, from, until or None). Section 8."""

    def __init__(self, first):
        self.ranges = [(first, 0, None)]

    @staticmethod
    def read(stated, first):
        alone = len(stated) == 1 and isinstance(stated[0], str)
        stated = [{"from": 0, "vkey": key} if isinstance(key, str) else key for key in stated]
        try:
            keys = [Key(key["vkey"]) for key in stated]
        except ValueError:
            raise Flaw("keys of a form that is not known here", 40) from None
        need(keys and keys[0].text == first.text, "the book's key is another one", 40)
        ring = Ring(first)
        ring.ranges = [(key, count(held["from"]), count(held["until"]) if "until" in held else None) for key, held in zip(keys, stated)]
        for (_, start, until), (_, after, _) in zip(ring.ranges, ring.ranges[1:]):
            need(start < after and until is not None and until + 1 >= after, "the keys do not follow each other")
        need(len({key.id for key in keys}) == len(keys) and all(key.name == first.name for key in keys), "a key stands twice")
        need(ring.ranges[0][1] == 0 and ring.ranges[-1][2] is None and alone == (len(keys) == 1), "the keys do not follow each other")
        return ring

    def keys(self):
        return [key for key, _, _ in self.ranges]

    def texts(self):
        return [(key.text, start, until) for key, start, until in self.ranges]

    def in_force(self, size):
        return next((key for key, start, until in reversed(self.ranges) if start <= size and (until is None or size <= until)), None)

    def judge(self, note, size):
        named = [held for held in self.ranges if note.names(held[0])]
        need(named, "no signature by a known key", UNKNOWN)
        outside = [key for key, start, until in named if size < start or (until is not None and size > until)]
        if outside or self.in_force(size) not in [key for key, _, _ in named]:
            note.verify(self.keys())
            key = (outside + [named[0][0]])[0]
            raise Flaw(f"the checkpoint of {size} entries is signed by the key {key.id.hex()}, which may not sign it alone or at all", 34)

    def rotate(self, index, rotation, size):
        strange = f"entry {index} replaces the key in a way this program does not know"
        need(rotation, strange, BEYOND)
        vkey, begins, until = rotation
        last, start, _ = self.ranges[-1]
        try:
            key = Key(vkey)
        except ValueError:
            raise Flaw(strange, BEYOND) from None
        until = size if until is None else until
        follows = index + 1 == size and begins == size + 1 and until >= size
        need(follows and key.name == last.name and key.id not in [other.id for other in self.keys()], strange, BEYOND)
        self.ranges[-1:] = [(last, start, until), (key, begins, None)]


def facts(entry):
    """What an entry states (section 3.4): a list of (what, …); nothing where it is not understood."""
    kind, index = entry["k"], entry["i"]
    if entry["v"] != 1:
        return []
    if kind in ("call", "outcome"):
        call, process, found = entry.get("call"), entry.get("process"), []
        named = is_text(call, ULID) and (is_text(process) or "process" not in entry and kind == "outcome")
        for field in FIELDS if named else ():
            if field not in entry:
                continue
            payload = entry[field]
            shown = [(field + ".view", payload["view"])] if isinstance(payload, dict) and "view" in payload else []
            for name, place in shown + [(field, payload)]:
                right = isinstance(place, dict) and is_text(place.get("c")) and is_number(place.get("n"))
                if not right or "at" not in place and name.endswith(".view"):
                    return []
                if "at" in place:
                    at = place["at"]
                    if not is_object(at, ("len", "off", "seg")) or not all(map(is_number, at.values())) or at["off"] + at["len"] > MAX_NUMBER:
                        return []
                    found.append(("stored", (index, name), call, at))
        return found + [("opened", call, (index, process)) if kind == "call" else ("closed", call)] if named else []
    if kind in ("book.recovered", "erase"):
        targets = entry.get("missing", []) if kind == "book.recovered" else entry.get("targets")
        right = isinstance(targets, list) and all(
            is_object(target, ("f", "i")) and is_text(target["f"]) and target["f"] in TARGETS and count(target["i"]) is not None
            for target in targets
        )
        return [("stated", (count(target["i"]), target["f"])) for target in targets] if right else []
    if kind == "prune":
        minimum = count(entry.get("minimum"))
        return [] if minimum is None or minimum > index else [("pruned", minimum)]
    if kind == "key.rotate":
        begins, until = count(entry.get("from")), count(entry.get("until"))
        right = is_text(entry.get("vkey")) and begins is not None and (until is not None or "until" not in entry)
        return [("rotated", index, (entry["vkey"], begins, until) if right else None)]
    return []


class Book:
    def __init__(self, folder):
        with regular(os.path.join(folder, "BOOK")) as file:
            lines = file.read(4097).decode("ascii").split("\n")
        if len(lines) != 5 or lines[0] != "countersign book 1" or lines[4] or not TIME.fullmatch(lines[3].removeprefix("created: ")):
            raise ValueError("a file BOOK this program does not know")
        self.origin = lines[1].removeprefix("origin: ")
        self.key = Key(lines[2].removeprefix("vkey: "))
        if lines[1:4] != [f"origin: {self.origin}", f"vkey: {self.key.text}", "created: " + lines[3][9:]]:
            raise ValueError("a file BOOK this program does not know")
        if not ORIGIN.fullmatch(self.origin) or self.key.name != self.origin:
            raise ValueError("BOOK names no origin, or the key of another one")
        self.ring, self.begun, self.pruned, self.minimum = Ring(self.key), 0, 0, 0
        self.objects, self.absent, self.payloads = os.path.join(folder, "vault"), {}, 0
        self.folder = os.path.join(folder, "journal")
        self.tree, self.last, self.open = Tree(), bytes(32), {}
        self.note, self.checkpoints, self.vault, self.genesis = None, 0, (0, 0), True
        self.batch = self.fresh()

    def segments(self):
        names = (re.fullmatch(r"([0-9]{20})\.jsonl", name) for name in os.listdir(self.folder))
        return sorted(int(name[1]) for name in names if name and int(name[1]) < 1 << 64)

    def seg(self, data, first, begins):
        """The first line of a segment (section 2.1)."""
        need(data.startswith(b"#seg "), "the segment does not begin with #seg")
        line = members(data[5:])
        need(is_number(line.get("v")), "the segment has no version")
        need(line["v"] == 1, "the segment has a version this program does not know", 40)
        exact = is_object(line, ("calls", "first", "keys", "last", "origin", "range", "v", "vault"), ("prevcp", "pruned"))
        need(exact and is_text(line["origin"], ORIGIN) and is_text(line["last"], HASH), "the first line has other members")
        need(count(line.get("pruned", 0)) is not None, "the first line has other members")
        need(all(isinstance(line[name], list) for name in ("calls", "keys", "range")), "the first line has other members")
        for key in line["keys"]:
            ranged = is_object(key, ("from", "vkey"), ("until",)) and is_text(key["vkey"]) and count(key["from"]) is not None
            need(is_text(key) or ranged and count(key.get("until", 0)) is not None, "the keys are of another form")
        for call in line["calls"]:
            named = is_object(call, ("call", "i", "process")) and is_text(call["call"], ULID) and is_text(call["process"])
            need(named and count(call["i"]) is not None and count(line["first"]) is not None, "the calls are of another form")
        need(is_object(line["vault"], ("end", "seg")) and all(map(is_number, line["vault"].values())), "the vault's end is of another form")
        need(all(is_text(node, HASH) for node in line["range"]) and is_text(line.get("prevcp", "")), "the range is of another form")
        ring = Ring.read(line["keys"], self.key)
        last, nodes = bytes.fromhex(line["last"][7:]), [bytes.fromhex(node[7:]) for node in line["range"]]
        calls = [(call["call"], (count(call["i"]), call["process"])) for call in line["calls"]]
        note, minimum = line.get("prevcp"), count(line.get("pruned", 0))
        vault = line["vault"]["seg"], line["vault"]["end"]
        if not begins:
            stated = (ring.texts(), nodes, last, note, vault, dict(calls), minimum)
            state = (self.ring.texts(), self.tree.nodes, self.last, self.note, self.vault, self.open, self.minimum)
            need(stated == state, "the segment does not start where the one before it ends")
        need(line["origin"] == self.origin and count(line["first"]) == first, "the segment is of another place or book")
        need("pruned" not in line or 0 < minimum <= first, "the segment states a pruning that cannot be")
        tree = Tree(first, nodes)
        need(len(nodes) == bin(first).count("1"), "the segment's compact range does not fit its first index")
        need(last == (nodes[-1] if first % 2 else last if first else bytes(32)), "the segment's last hash is another")
        need((note is None) == (first == 0), "a segment but the first repeats a checkpoint")
        if note is not None:
            before = Note(note.encode())
            need((before.origin, before.size, before.root) == (self.origin, first, tree.root()), "the segment repeats a checkpoint of another tree")
            need(all(start <= first + 1 for _, start, _ in ring.ranges), "a key the segment states is not in force yet")
            try:
                ring.judge(before, first)
            except Flaw as flaw:
                raise Flaw(str(flaw), 40 if flaw.kind == UNKNOWN else None) from None
            before.verify(ring.keys())
        need(calls == sorted(dict(calls).items()) and all(at < first for _, (at, _) in calls), "the open calls are not in order")
        self.tree, self.last, self.note, self.open, self.ring, self.vault, self.minimum = tree, last, note, dict(calls), ring, vault, minimum

    def fresh(self):
        return {"tree": Tree(self.tree.size, self.tree.nodes), "last": self.last, "facts": [], "genesis": self.genesis}

    def entry(self, data):
        tree = self.batch["tree"]
        need(len(data) <= MAX_ENTRY, "the entry is longer than 65,535 bytes")
        need(tree.size - self.tree.size < MAX_BATCH, "more entries stand without a checkpoint than a batch can hold")
        entry = members(data)
        need(is_number(entry.get("i")) and is_number(entry.get("v")) and is_text(entry.get("k")), "it lacks a member every entry has")
        need(is_text(entry.get("prev"), HASH) and is_text(entry.get("ts"), TIME), "it lacks a member every entry has")
        need(entry["i"] == tree.size, f"the entry says it is number {entry['i']}, expected is {tree.size}")
        need(bytes.fromhex(entry["prev"][7:]) == self.batch["last"], "its `prev` is not the hash of the entry before: one of the two was changed")
        if tree.size == 0:
            self.batch["genesis"] = [entry.get(name) for name in ("k", "v", "origin", "vkey")] == ["book.open", 1, self.origin, self.key.text]
        self.batch["last"] = sha256(b"\x00", data)
        tree.push(self.batch["last"])
        self.batch["facts"] += [(entry["i"], fact) for fact in facts(entry)]

    def sign(self, encoded):
        note, tree = Note(encoded), self.batch["tree"]
        need((note.origin, note.size, note.root) == (self.origin, tree.size, tree.root()), "the entries before the checkpoint are not those it signs")
        need(note.size > self.tree.size, "the checkpoint repeats the one before it")
        self.ring.judge(note, note.size)
        note.verify(self.ring.keys())
        for _, (what, *fact) in self.batch["facts"]:
            if what == "rotated":
                self.ring.rotate(*fact, note.size)
        self.tree, self.last, self.genesis = tree, self.batch["last"], self.batch["genesis"]
        for index, (what, *fact) in self.batch["facts"]:
            self.take(index, what, *fact)
        self.note, self.batch = encoded.decode(), self.fresh()
        self.checkpoints += 1

    def take(self, index, what, *fact):
        if what == "opened":
            self.open[fact[0]] = fact[1]
        elif what == "closed":
            self.open.pop(fact[0], None)
        elif what == "stored":
            target, call, at = fact
            self.vault = max(self.vault, (at["seg"], at["off"] + at["len"]))
            why = self.object(target[1], call, at)
            self.payloads += not why
            if why:
                self.absent[target] = why
        elif what == "stated":
            self.absent.pop(fact[0], None)
        elif what == "pruned":
            self.pruned, self.minimum = max(self.pruned, fact[0]), max(self.minimum, fact[0])
            self.absent = {target: why for target, why in self.absent.items() if target[0] >= self.pruned}

    def object(self, field, call, at):
        """Why the object is not where its entry says; nothing when it is (section 5)."""
        names = b"".join(bytes([len(name)]) + name for name in (call.encode(), field.encode()))
        head = b"CSVOBJ1\n" + at["len"].to_bytes(8, "big") + names
        if not len(head) + 104 + 40 <= at["len"] <= 162 + 512 + (64 << 20):
            return "is not in the vault"
        try:
            with regular(os.path.join(self.objects, f"{at['seg']:020}.seg")) as file:
                right = file.read(32) == VAULT_HEAD
                file.seek(at["off"])
                start = file.read(len(head) + 104)
                file.seek(at["off"] + at["len"] - 16)
                end = file.read(16)
        except (OSError, ValueError, OverflowError):
            return "is not in the vault"
        if not right or start[: len(head)] != head or len(start) != len(head) + 104 or len(end) != 16 or not any(end):
            return "is not in the vault"
        return None if any(start[len(head) :]) else "was erased"

    def is_later(self, line):
        """Whether the line is a checkpoint of this book, by a known key, beyond the head."""
        try:
            note = Note(line.removeprefix(b"#cp "))
            note.verify(self.ring.keys())
            return line.startswith(b"#cp ") and note.origin == self.origin and note.size > self.tree.size
        except Flaw:
            return False

    def segment(self, first, last, begins):
        """Reads one segment. Nothing where it ends with its last checkpoint, else (code, what)."""
        path = os.path.join(self.folder, f"{first:020}.jsonl")
        with regular(path) as file:
            good, number, flaw, size = (0, 0), 0, None, os.fstat(file.fileno()).st_size
            for number, line, whole, end in lines(file, 0):
                try:
                    need(whole, "the line is not whole")
                    if number == 1:
                        self.seg(line, first, begins)
                        self.batch = self.fresh()
                    elif line.startswith(b"{"):
                        self.entry(line)
                    else:
                        need(line.startswith(b"#cp "), "neither an entry nor a checkpoint")
                        self.sign(line[4:])
                    if not line.startswith(b"{"):
                        good = (number, end)
                except Flaw as error:
                    flaw = error
                    break
            self.batch = self.fresh()
            place = f"{path} line {number if flaw else good[0] + 1}, entry {self.tree.size} or after it: "
            if good[0] == 0:
                kind = flaw.kind if flaw else None
                return 40 if kind in (40, UNKNOWN) else 31, place + str(flaw or "the segment is empty")
            if good[1] == size:
                return None
            if size - good[1] > MAX_TAIL:
                return 31, place + "more bytes follow the last good checkpoint than any batch has"
            if flaw and flaw.kind in (34, BEYOND):
                return 34 if flaw.kind == 34 else 40, place + str(flaw)
            # A later checkpoint that is signed and larger: what is before it was changed after signing.
            later, at_end = 0, False
            for _, line, whole, _ in lines(file, good[1]) if flaw else ():
                at_end = whole and self.is_later(line)
                later += at_end
            if flaw and flaw.kind == UNKNOWN and not later:
                return 40, place + str(flaw)
            if later and not (later == 1 and at_end and unwritten(file, good[1])):
                return 31, place + str(flaw)
            if not last:
                return 31, place + "bytes follow the last checkpoint of a segment that was ended"
            return 13, place + "bytes after the last checkpoint are not signed"

    def read(self):
        """Reads segment after segment. Nothing, or (code, what) of the first bad place."""
        begins = True
        while True:
            there = self.segments()
            first = there[0] if begins and there else self.tree.size
            self.begun = first if begins else self.begun
            if first not in there:
                return 31, f"the segment with entry {first} is not there"
            last = first == there[-1]
            found = self.segment(first, last, begins and first > 0)
            begins = False
            if found and found[0] != 13:
                return found
            if self.tree.size == first and (not last or first == 0):
                return 31, f"the segment from entry {first} holds no entry under a checkpoint"
            if found or last:
                return found
            if any(first < other < self.tree.size for other in there):
                return 31, "a segment begins inside another"


def lines(file, start):
    """The lines from an offset on: number, bytes without the line feed, whether it is whole, the offset after it."""
    file.seek(start)
    number, end = 0, start
    while line := file.readline(MAX_LINE + 1):
        number, end, whole = number + 1, end + len(line), line.endswith(b"\n")
        rest = line
        while len(line) > MAX_LINE and rest and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE)
            end += len(rest)
        yield number, line[:-1] if whole else line, whole, end


def unwritten(file, start):
    """Whether a 512-byte sector, or what of it lies after start, is all zero: the disk lost power before it."""
    file.seek(0, os.SEEK_END)
    end, at = file.tell(), start
    while at < end:
        after = min((at // 512 + 1) * 512, end)
        file.seek(at)
        if not any(file.read(after - at)):
            return True
        at = after
    return False


def verify(folder, pinned=None):
    """Verifies a book: the exit code, and what is said, a list of lines. `pinned` is a vkey known from elsewhere."""
    try:
        pinned = pinned and Key(pinned)
    except ValueError as error:
        return 2, [f"the key given is not understood: {error}"]
    if not os.path.lexists(os.path.join(folder, "BOOK")):
        return 2, ["there is no file BOOK in this folder"]
    try:
        book = Book(folder)
        end = book.read()
    except (OSError, ValueError) as error:
        return 40, [f"can't be verified: {error}"]
    found, said = [], []
    broken = end is not None and end[0] != 13
    if end:
        found.append(end)
    key = next((held for held in book.ring.ranges if held[0].text == (pinned or book.key).text), None)
    if key is None and broken and pinned.name == book.key.name:
        found.append((40, "up to there the key given is not in force: whether it is this book's is not known"))
    elif key is None:
        found.append((35, "this is another book: the key given is none of its keys"))
    elif book.begun and key[1] <= book.begun + 1 and book.ring.in_force(book.begun + 1) is not key[0]:
        found.append((40, "the key known was replaced before the first kept entry: give the key in force"))
    if book.begun and book.pruned < book.begun:
        found.append((31, f"the entries 0 to {book.begun - 1} are not there, and no entry that was read says why"))
    elif book.begun:
        said.append(f"the entries 0 to {book.begun - 1} were pruned, on record")
    if not book.genesis:
        found.append((31, "BOOK and entry 0 do not state the same book"))
    for (index, field), why in sorted(book.absent.items()):
        found.append((30, f"the payload `{field}` of entry {index} {why}, and no entry that was read says so"))
    code = next((code for code in ORDER if code in [each for each, _ in found]), 0)
    said += [what for _, what in found]
    reference = "against the key given" if pinned else "but there is no independent reference"
    root = base64.b64encode(book.tree.root()).decode()
    if not broken:
        said.append(f"{book.tree.size} entries under {book.checkpoints} checkpoints, root {root}: whole and signed, {reference}")
    if book.payloads:
        said.append(f"{book.payloads} stored payloads are in their places, their encrypted bytes were not checked: that needs the vault's key")
    return code, said


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    code, said = verify(*arguments)
    for line in said:
        print("".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in line).encode("ascii", "backslashreplace").decode())
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
