// Encodes and decodes texts with Hugging Face's Rust tokenizers, for the tests of
// gpu/tokenizer.
//
//   node tokenizer_reference.mjs NODE_MODULES tokenizer.json < texts.json > answers.json
//
// In: an array of strings. Out: an array of {ids, text}: the ids of the string, and
// what those decode to.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [modules, file] = process.argv.slice(2);
const require = createRequire(resolve(modules, "x"));
const { Tokenizer } = require(resolve(modules, "@anush008/tokenizers"));

const tokenizer = Tokenizer.fromFile(file);
const texts = JSON.parse(readFileSync(0, "utf8"));
const answers = [];
let seconds = 0;
for (const text of texts) {
  const start = process.hrtime.bigint();
  const encoding = await tokenizer.encode(text, null, { addSpecialTokens: false });
  seconds += Number(process.hrtime.bigint() - start) / 1e9;
  const ids = encoding.getIds();
  answers.push({ ids, text: await tokenizer.decode(ids, false) });
}
const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
console.error(`${file}: ${texts.length} texts, ${(bytes / seconds / 1e6).toFixed(2)} MB/s`);
writeFileSync(1, JSON.stringify(answers));
