#!/usr/bin/env python3
"""Verifies a book with nothing but Python's standard library and the openssl command.

    python3 verify.py FOLDER [VKEY]

FOLDER is the book (it holds the file BOOK). VKEY is the verifier key as known from elsewhere; without it the book's own
word is taken and the answer says so. Exit: 0 whole and signed, 13 bytes after the last checkpoint, 30 payloads missing,
31 changed, 34 signed by a key outside its range, 35 another book, 40 can't be verified. The format is in FORMAT.md. Objects of the vault are looked for by their first and last
bytes; whether the encrypted bytes between were changed only the vault's key tells, and this program has none.
"""
import base64
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile

MAX_LINE = 4 << 20


UNKNOWN = "unknown"


class Flaw(Exception):
    """What is wrong with a line; the exit code where that alone decides it, UNKNOWN where what comes after it does."""

    def __init__(self, what, code=None):
        super().__init__(what)
        self.code = code


def regular(path):
    """Opens a regular file; a pipe or a device could be waited for without end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is not a regular file")
    return open(path, "rb")


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


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


class Key:
    def __init__(self, vkey):
        self.text = vkey
        self.name, key_id, data = vkey.split("+", 2)
        raw = base64.b64decode(data, validate=True)
        if raw[:1] != b"\x01" or len(raw) != 33:
            raise ValueError("the key is not Ed25519")
        self.id = sha256(self.name.encode(), b"\n", raw)[:4]
        if self.id.hex() != key_id:
            raise ValueError("the key id is not the key's")
        # SubjectPublicKeyInfo of an Ed25519 key (RFC 8410).
        der = bytes.fromhex("302a300506032b6570032100") + raw[1:]
        self.pem = b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(der) + b"\n-----END PUBLIC KEY-----\n"

    def signed(self, text, signature):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("key", "text", "signature")]
            for path, data in zip(paths, (self.pem, text, signature)):
                with open(path, "wb") as file:
                    file.write(data)
            command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", paths[0], "-rawin", "-in", paths[1], "-sigfile", paths[2]]
            return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Ring:
    """Every key a book has had with the sizes it may sign, oldest first: (key, from, until or None)."""

    def __init__(self, first):
        self.ranges = [(first, 0, None)]

    @staticmethod
    def read(stated, first):
        ring = Ring(first)
        if stated == [first.text]:
            return ring
        ring.ranges = []
        for key in stated:
            if isinstance(key, str) or set(key) - {"from", "until", "vkey"} or len(stated) < 2:
                raise Flaw("keys that are not known here", 40)
            ring.ranges.append((Key(key["vkey"]), key["from"], key.get("until")))
        before = None
        for key, start, until in ring.ranges:
            if before and (start <= before[1] or before[2] is None or before[2] + 1 < start) or key.name != first.name:
                raise Flaw("the keys the segment states do not follow each other")
            before = key, start, until
        if not before or ring.ranges[0][0].text != first.text or ring.ranges[0][1] != 0:
            raise Flaw("keys that are not known here", 40)
        if before[2] is not None:
            raise Flaw("the keys the segment states do not follow each other")
        return ring

    def texts(self):
        return [(key.text, start, until) for key, start, until in self.ranges]

    def in_force(self, size):
        return next((key for key, start, until in reversed(self.ranges) if start <= size and (until is None or size <= until)), None)

    def rotate(self, entry, size):
        index, until = entry["i"], entry.get("until", size)
        last, start, _ = self.ranges[-1]
        try:
            key = Key(entry["vkey"])
        except (ValueError, AttributeError):
            raise Flaw(f"entry {index} puts a key in force that this program does not know", 40)
        known = any(key.id == other.id for other, _, _ in self.ranges)
        if index + 1 != size or entry["from"] != size + 1 or until < size or key.name != last.name or known:
            raise Flaw(f"entry {index} replaces the key in a way this program does not know", 40)
        self.ranges[-1] = (last, start, until)
        self.ranges.append((key, size + 1, None))


def checkpoint(encoded, origin, ring, ranges=True):
    """Size and root of a note, once its signatures by the book's keys are verified."""
    try:
        note = base64.b64decode(encoded, validate=True)
        text, lines = note.rsplit(b"\n\n", 1)
        text += b"\n"
        first, size, root, rest = text.decode().split("\n")
        root = base64.b64decode(root, validate=True)
    except ValueError:
        raise Flaw("not a checkpoint note")
    if rest or first != origin or str(int(size)) != size or len(root) != 32 or not lines.endswith(b"\n"):
        raise Flaw("not a checkpoint of this book")
    size, signed, outside = int(size), [], None
    for line in lines.decode()[:-1].split("\n"):
        dash, name, data = line.split(" ")
        data = base64.b64decode(data, validate=True)
        if dash != "\u2014":
            raise Flaw("not a signature line")
        for key, start, until in ring.ranges:
            if (name, data[:4]) == (key.name, key.id):
                if not key.signed(text, data[4:]):
                    raise Flaw("the signature does not match")
                signed.append(key)
                if size < start or (until is not None and size > until):
                    outside = key
    if not signed:
        raise Flaw("no signature by a known key", UNKNOWN)
    if ranges and (outside or ring.in_force(size) not in signed):
        key = outside or signed[0]
        raise Flaw(f"the checkpoint of {size} entries is signed by the key {key.id.hex()}, which may not sign it alone or at all", 34)
    return size, root


def digest(text):
    if not text.startswith("sha256:") or len(text) != 71:
        raise Flaw("not a hash")
    return bytes.fromhex(text[7:])


def members(data):
    def once(pairs):
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError("a member stands twice")
        return dict(pairs)

    value = json.loads(data, object_pairs_hook=once)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


class Book:
    def __init__(self, folder, pinned):
        with regular(os.path.join(folder, "BOOK")) as file:
            lines = file.read(4096).decode("ascii").split("\n")
        if lines[0] != "countersign book 1":
            raise ValueError("a format this program does not know")
        self.origin = lines[1].removeprefix("origin: ")
        self.key = Key(lines[2].removeprefix("vkey: "))
        self.ring, self.begun, self.pruned, self.minimum = Ring(self.key), 0, 0, 0
        self.objects, self.absent, self.payloads = os.path.join(folder, "vault"), {}, 0
        self.folder = os.path.join(folder, "journal")
        self.tree, self.last, self.open = Tree(), bytes(32), {}
        self.note, self.checkpoints, self.vault = None, 0, (0, 0)

    def segments(self):
        names = os.listdir(self.folder)
        return sorted(int(n[:20]) for n in names if len(n) == 26 and n.endswith(".jsonl") and n[:20].isdigit())

    def seg(self, data, first):
        line = members(data)
        if line["v"] != 1:
            raise SystemExit(answer(40, f"the segment from entry {first} has a version this program does not know"))
        ring = Ring.read(line["keys"], self.key)
        if any(start > first + 1 for _, start, _ in ring.ranges):
            raise Flaw("a key the segment states is not in force yet")
        calls = {c["call"]: (c["i"], c["process"]) for c in line["calls"]}
        if self.begun == first > 0 and self.tree.size == 0:
            self.tree, self.last = Tree(first, [digest(h) for h in line["range"]]), digest(line["last"])
            if len(self.tree.nodes) != bin(first).count("1") or first % 2 and self.tree.nodes[-1] != self.last:
                raise Flaw("the segment's compact range does not fit its first index")
            self.note, self.open, self.ring = line["prevcp"], calls, ring
            self.vault = line["vault"]["seg"], line["vault"]["end"]
            self.minimum = line.get("pruned", 0)
        same = (
            ring.texts() == self.ring.texts(),
            line["origin"] == self.origin,
            line["first"] == first == self.tree.size,
            [digest(h) for h in line["range"]] == self.tree.nodes,
            digest(line["last"]) == self.last,
            line.get("prevcp") == self.note,
            (line["vault"]["seg"], line["vault"]["end"]) == self.vault,
            calls == self.open,
            line.get("pruned", 0) == self.minimum,
        )
        if not all(same):
            raise Flaw("the segment does not start where the one before it ends")
        if self.note is not None and checkpoint(self.note.encode(), self.origin, ring) != (first, self.tree.root()):
            raise Flaw("the segment repeats a checkpoint of another tree")

    def entry(self, data, batch):
        entry = members(data)
        tree, last = batch["tree"], batch["last"]
        if tree.size - self.tree.size >= 4096:
            raise Flaw("more entries without a checkpoint than a batch can hold")
        if entry["i"] != tree.size:
            raise Flaw(f"the entry says it is number {entry['i']}, expected is {tree.size}")
        if digest(entry["prev"]) != last:
            raise Flaw("its `prev` is not the hash of the entry before: one of the two was changed")
        batch["last"] = sha256(b"\x00", data)
        tree.push(batch["last"])
        if entry["v"] != 1:
            return
        if entry["k"] == "call":
            batch["calls"].append((entry["call"], (entry["i"], entry["process"])))
        if entry["k"] == "outcome":
            batch["calls"].append((entry["call"], None))
        if entry["k"] in ("call", "outcome"):
            for field in ("args", "sent", "result"):
                payload = entry.get(field, {})
                for name, at in ((field + ".view", payload.get("view", {}).get("at")), (field, payload.get("at"))):
                    if at:
                        batch["vault"] = max(batch["vault"], (at["seg"], at["off"] + at["len"]))
                        batch["stored"].append((entry["i"], name, entry["call"], at))
        if entry["k"] == "key.rotate":
            batch["rotations"].append(entry)
        if entry["k"] == "prune":
            batch["pruned"] = max(batch["pruned"], entry["minimum"])
        for member in {"book.recovered": ("missing",), "erase": ("targets",)}.get(entry["k"], ()):
            batch["stated"] += [(target["i"], target["f"]) for target in entry.get(member, [])]

    def fresh(self):
        tree = Tree(self.tree.size, self.tree.nodes)
        return {"tree": tree, "last": self.last, "calls": [], "vault": self.vault, "stored": [], "stated": [], "rotations": [], "pruned": 0}

    def sign(self, encoded, batch):
        size, root = checkpoint(encoded, self.origin, self.ring)
        if size != batch["tree"].size or root != batch["tree"].root():
            raise Flaw("the entries before the checkpoint do not give its root")
        if size == self.tree.size:
            raise Flaw("the checkpoint repeats the one before it")
        for rotation in batch["rotations"]:
            self.ring.rotate(rotation, size)
        self.tree, self.last, self.vault = batch["tree"], batch["last"], batch["vault"]
        for call, opened in batch["calls"]:
            if opened is None:
                self.open.pop(call, None)
            else:
                self.open[call] = opened
        for index, field, call, at in batch["stored"]:
            why = self.object(field, call, at)
            self.payloads += not why
            if why:
                self.absent[index, field] = why
        for target in batch["stated"]:
            self.absent.pop(target, None)
        if batch["pruned"]:
            self.pruned = max(self.pruned, batch["pruned"])
            self.minimum = max(self.minimum, batch["pruned"])
            self.absent = {target: why for target, why in self.absent.items() if target[0] >= self.pruned}
        self.note = encoded.decode()
        self.checkpoints += 1

    def object(self, field, call, at):
        """Why the object is not where its entry says; nothing when it is."""
        names = b"".join(bytes([len(name)]) + name for name in (call.encode(), field.encode()))
        head = b"CSVOBJ1\n" + at["len"].to_bytes(8, "big") + names
        try:
            with regular(os.path.join(self.objects, f"{at['seg']:020}.seg")) as file:
                file.seek(at["off"])
                start = file.read(len(head) + 104)
                file.seek(at["off"] + at["len"] - 16)
                end = file.read(16)
        except (OSError, ValueError, OverflowError):
            return "is not in the vault"
        if start[: len(head)] != head or len(start) != len(head) + 104 or len(end) != 16 or not any(end):
            return "is not in the vault"
        return None if any(start[len(head) :]) else "was erased"

    def is_later(self, encoded):
        try:
            return checkpoint(encoded, self.origin, self.ring, ranges=False)[0] > self.tree.size
        except (Flaw, ValueError):
            return False

    def segment(self, first, last):
        """Reads one segment. Answers nothing, or (line, what) of bytes after its last checkpoint."""
        path = os.path.join(self.folder, f"{first:020}.jsonl")
        with regular(path) as file:
            number, good, end, batch, flaw, code = 0, 1, 0, self.fresh(), None, None
            while data := file.readline(MAX_LINE):
                number += 1
                try:
                    if not data.endswith(b"\n"):
                        raise Flaw("the line is not whole")
                    data = data[:-1]
                    if number == 1:
                        if not data.startswith(b"#seg "):
                            raise Flaw("the segment does not begin with #seg")
                        self.seg(data[5:], first)
                        batch = self.fresh()
                    elif data.startswith(b"{"):
                        self.entry(data, batch)
                    elif data.startswith(b"#cp "):
                        self.sign(data[4:], batch)
                        good, end, batch = number, file.tell(), self.fresh()
                    else:
                        raise Flaw("neither an entry nor a checkpoint")
                except Flaw as error:
                    flaw, code = str(error), error.code
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                    flaw = f"not readable ({error})"
                if flaw:
                    break
            if code in (34, 40):
                raise SystemExit(answer(code, f"{path} line {number}: {flaw}"))
            if number == 0 or (flaw and number == 1):
                raise SystemExit(answer(31, f"{path} line 1: {flaw or 'empty'}"))
            if not flaw and number == good:
                return None
            at = number if flaw else good + 1
            # A later checkpoint that is signed and larger: what is before it was changed after signing.
            later, at_end = 0, False
            while flaw and (data := file.readline(MAX_LINE)):
                ours = data.startswith(b"#cp ") and data.endswith(b"\n") and self.is_later(data[4:-1])
                later += ours
                at_end = ours
            if code == UNKNOWN and not later:
                raise SystemExit(answer(40, f"{path} line {number}: {flaw}"))
            if later and not (last and later == 1 and at_end and unwritten(file, end)) or flaw and not last:
                raise SystemExit(answer(31, f"{path} line {at}, entry {self.tree.size} or after it: {flaw}"))
            return path, good + 1, last


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


def answer(code, text):
    print(text)
    return code


def main(folder, pinned=None):
    try:
        book = Book(folder, pinned)
    except (OSError, ValueError, IndexError) as error:
        return answer(40, f"can't be verified: {error}")
    try:
        return read(book, pinned)
    except (OSError, ValueError) as error:
        return answer(40, f"can't be verified: {error}")


def read(book, pinned):
    tail, begun = None, False
    while tail is None:
        first, there = book.tree.size, book.segments()
        if not begun and there:
            first = book.begun = there[0]
        begun = True
        if first not in there:
            return answer(31, f"the segment with entry {first} is not there")
        tail = book.segment(first, last=first == there[-1])
        if first == there[-1]:
            break
        if book.tree.size == first:
            return answer(31, f"the segment from entry {first} holds no entry")
    keys = [key.text for key, _, _ in book.ring.ranges]
    if pinned and pinned not in keys:
        return answer(35, "this is another book: the key given is none of its keys")
    if book.begun:
        key, start, _ = next(held for held in book.ring.ranges if held[0].text == (pinned or keys[0]))
        if start <= book.begun + 1 and book.ring.in_force(book.begun + 1) is not key:
            return answer(40, "the key known was replaced before the first kept entry: give the key in force")
        if book.pruned < book.begun:
            return answer(31, f"the entries 0 to {book.begun - 1} are not there, and no entry says why")
        print(f"the entries 0 to {book.begun - 1} were pruned, on record")
    reference = "against the key given" if pinned else "but there is no independent reference"
    root = base64.b64encode(book.tree.root()).decode()
    text = f"{book.tree.size} entries under {book.checkpoints} checkpoints, root {root}: whole and signed, {reference}"
    if book.payloads:
        text += f"; {book.payloads} stored payloads are in their places, their encrypted bytes were not checked: that needs the vault's key"
    if tail and not tail[2]:
        return answer(31, f"{tail[0]} line {tail[1]}: bytes after the last checkpoint of a segment that was ended")
    if book.absent:
        for (index, field), why in sorted(book.absent.items()):
            print(f"the payload `{field}` of entry {index} {why}, and no entry says so")
        return answer(30, text)
    if tail:
        path, line, last = tail
        return answer(13, f"{text}\n{path} line {line}: bytes after the last checkpoint are not signed")
    return answer(0, text)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
