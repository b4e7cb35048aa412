"""Checks a tiled log over HTTP by the text of C2SP tlog-tiles, with the standard library and openssl: tiles.py URL VKEY"""

import base64
import hashlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

URL, VKEY = sys.argv[1], sys.argv[2]


def refuse(why):
    sys.exit(f"refused: {why}")


def fetch(path):
    try:
        with urllib.request.urlopen(f"{URL}/{path}", timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        refuse(f"{path}: {error.code}")


def node(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def tree_hash(hashes):
    """MTH of RFC 6962 over nodes of one level."""
    if len(hashes) == 1:
        return hashes[0]
    half = 1 << (len(hashes) - 1).bit_length() - 1
    return node(tree_hash(hashes[:half]), tree_hash(hashes[half:]))


def name(kind, index, width):
    digits = f"{index:03}"
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    path = "/".join(["x" + group for group in groups[:-1]] + groups[-1:])
    return f"tile/{kind}/{path}" + ("" if width == 256 else f".p/{width}")


def tiles(kind, count):
    """Every full and partial resource of a level with `count` hashes or entries."""
    for index in range(-(-count // 256)):
        width = min(256, count - 256 * index)
        yield index, width, fetch(name(kind, index, width))


def checkpoint():
    text = fetch("checkpoint").decode()
    body, signatures = text.split("\n\n")
    lines = body.split("\n")
    if len(lines) != 3 or lines[0] != VKEY.split("+")[0]:
        refuse("not a checkpoint of this log")
    mine = [line for line in signatures.splitlines() if line.startswith(f"\u2014 {lines[0]} ")]
    if not mine:
        refuse("not signed by this log")
    key = base64.b64decode(VKEY.split("+", 2)[2])[1:]
    signature = base64.b64decode(mine[0].split(" ")[2])[4:]
    with tempfile.TemporaryDirectory() as work:
        for file, data in [
            ("key", bytes.fromhex("302a300506032b6570032100") + key),
            ("text", (body + "\n").encode()),
            ("signature", signature),
        ]:
            with open(f"{work}/{file}", "wb") as out:
                out.write(data)
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", f"{work}/key", "-rawin"]
        command += ["-in", f"{work}/text", "-sigfile", f"{work}/signature"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            refuse("the signature does not verify")
    return int(lines[1]), base64.b64decode(lines[2])


def entries(size):
    """Leaf hashes out of the bundles."""
    leaves = []
    for _, width, data in tiles("entries", size):
        at = 0
        for _ in range(width):
            length = int.from_bytes(data[at : at + 2], "big")
            entry = data[at + 2 : at + 2 + length]
            if len(entry) != length:
                refuse("a bundle is cut")
            leaves.append(hashlib.sha256(b"\x00" + entry).digest())
            at += 2 + length
        if at != len(data):
            refuse("a bundle has more than its entries")
    return leaves


def inclusion(index, size, root, leaf):
    """A proof out of the few tiles it needs, verified."""
    cache = {}

    def tile(level, number):
        if (level, number) not in cache:
            width = min(256, (size >> 8 * level) - 256 * number)
            data = fetch(name(level, number, width))
            cache[level, number] = [data[at : at + 32] for at in range(0, len(data), 32)]
        return cache[level, number]

    def subtree(start, end):
        """MTH(D[start:end]) for a range that RFC 6962 splits a tree into."""
        length = end - start
        if length & (length - 1) == 0:
            level, height = divmod(length.bit_length() - 1, 8)
            first = start >> 8 * level
            hashes = tile(level, first // 256)[first % 256 : first % 256 + (1 << height)]
            if len(hashes) != 1 << height:
                refuse("a tile is too narrow")
            return tree_hash(hashes)
        half = 1 << (length - 1).bit_length() - 1
        return node(subtree(start, start + half), subtree(start + half, end))

    def climb(start, end):
        if end - start == 1:
            return leaf
        middle = start + (1 << (end - start - 1).bit_length() - 1)
        if index < middle:
            return node(climb(start, middle), subtree(middle, end))
        return node(subtree(start, middle), climb(middle, end))

    if climb(0, size) != root:
        refuse(f"entry {index} is not proven")
    return len(cache)


SIZE, ROOT = checkpoint()
LEAVES = entries(SIZE)
if tree_hash(LEAVES) != ROOT:
    refuse("the entries do not give the root")
below, level = LEAVES, 0
while below:
    above = []
    for number, width, data in tiles(level, len(below)):
        if data != b"".join(below[256 * number : 256 * number + width]):
            refuse(f"tile {number} of level {level} holds other hashes")
        if width == 256:
            above.append(tree_hash(below[256 * number : 256 * number + 256]))
    below, level = above, level + 1
for number in {0, SIZE - 1, SIZE // 2, SIZE // 3, min(255, SIZE - 1), min(256, SIZE - 1)}:
    inclusion(number, SIZE, ROOT, LEAVES[number])
print(f"{SIZE} entries, {level} levels")
