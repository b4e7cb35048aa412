"""Every entry is spelled as the rfc8785 package spells it: canonical.py JOURNAL…"""

import json
import sys

import rfc8785

count = 0
for path in sys.argv[1:]:
    with open(path, "rb") as journal:
        for line in journal:
            if line.startswith(b"{"):
                line = line.rstrip(b"\n")
                if rfc8785.dumps(json.loads(line)) != line:
                    sys.exit(f"refused: {line.decode()}")
                count += 1
print(count)
