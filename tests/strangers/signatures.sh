#!/usr/bin/env bash
# Every checkpoint's signature, by openssl alone: signatures.sh FOLDER VKEY
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The key: what is after the last `+`, without its first byte (the type), behind the fixed head of an Ed25519 public key.
(printf '\060\052\060\005\006\003\053\145\160\003\041\000'; printf %s "$2" | cut -d+ -f3- | base64 -d | tail -c 32) >"$work/key.der"
count=0
while read -r encoded; do
  base64 -d <<<"$encoded" >"$work/note"
  head -n 3 "$work/note" >"$work/text"
  [ "$(head -n 1 "$work/text")" = "${2%%+*}" ] || { echo "refused: another origin" >&2; exit 1; }
  # Three lines, an empty one, one signature: nothing that is not signed may stand between.
  [ "$(wc -l <"$work/note")" = 5 ] && [ -z "$(sed -n 4p "$work/note")" ] || { echo "refused: not a checkpoint" >&2; exit 1; }
  sed -n 's/^— [^ ]* //p' "$work/note" | base64 -d | tail -c 64 >"$work/signature"
  openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key.der" -rawin -in "$work/text" -sigfile "$work/signature" >/dev/null
  count=$((count + 1))
done < <(sed -n 's/^#cp //p' "$1"/journal/*.jsonl)
[ "$count" -gt 0 ]
echo "$count signatures"
