// Every entry is spelled as RFC 8785 derives it from ECMAScript's JSON: canonical.mjs JOURNAL…
import { readFileSync } from "node:fs";

const spell = (value) => {
  if (Array.isArray(value)) return `[${value.map(spell).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  // The default order of strings is that of their UTF-16 code units.
  const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${spell(value[name])}`);
  return `{${members.join(",")}}`;
};

let count = 0;
for (const path of process.argv.slice(2)) {
  for (const line of readFileSync(path, "utf8").split("\n")) {
    if (!line.startsWith("{")) continue;
    if (spell(JSON.parse(line)) !== line) {
      console.error(`refused: ${line}`);
      process.exit(1);
    }
    count += 1;
  }
}
console.log(count);
