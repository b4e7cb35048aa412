"""The root of every checkpoint, by pymerkle: roots.py FOLDER. Looks at no signature: that is the others' part."""

import base64
import pathlib
import sys

from pymerkle import InmemoryTree

tree = InmemoryTree(algorithm="sha256")
checkpoints = 0
unsigned = False
for segment in sorted(pathlib.Path(sys.argv[1], "journal").glob("*.jsonl")):
    if int(segment.stem) != tree.get_size():
        sys.exit(f"refused: a segment is missing before {segment.name}")
    for line in segment.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            sys.exit("refused: a line does not end")
        line = line[:-1]
        if line.startswith(b"{"):
            tree.append_entry(line)
            unsigned = True
        elif line.startswith(b"#cp "):
            _, size, root = base64.b64decode(line[4:], validate=True).decode().split("\n\n")[0].split("\n")
            if int(size) != tree.get_size() or base64.b64decode(root) != tree.get_root():
                sys.exit(f"refused: the tree of {size} entries is another")
            checkpoints += 1
            unsigned = False
if unsigned or not checkpoints:
    sys.exit("refused: entries without a checkpoint")
print(f"{tree.get_size()} entries, {checkpoints} checkpoints")
