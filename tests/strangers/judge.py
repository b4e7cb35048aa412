"""Answers verdicts of proxy/book/verify.py for many books in one process. Refuses to judge anything itself.

    python3 judge.py PATH_OF_VERIFY_PY

Each line of the input is a JSON list [folder, vkey or null]; each is answered by a line [exit code, [what is said]]. A crash of
the verifier is the code -1. Signatures asked about before are remembered: forged books share most of theirs.
"""
import functools
import importlib.util
import json
import sys
import traceback

spec = importlib.util.spec_from_file_location("verify", sys.argv[1])
verifier = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verifier)
verifier.openssl = functools.lru_cache(maxsize=50_000)(verifier.openssl)
verifier.is_strong = functools.lru_cache(maxsize=50_000)(verifier.is_strong)

for line in sys.stdin:
    folder, vkey = json.loads(line)
    try:
        answer = verifier.verify(folder, vkey)
    except BaseException:
        answer = -1, traceback.format_exc().splitlines()[-6:]
    print(json.dumps(answer), flush=True)
