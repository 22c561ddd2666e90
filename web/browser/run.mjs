// Runs the tests in a real browser, against the real server with scripted agents.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { BROWSER, program } from "./stage.mjs";

const here = dirname(fileURLToPath(import.meta.url));
if (!existsSync(BROWSER)) {
  console.log(`SKIPPED: tests in a browser (${BROWSER} is not there; RETHREAD_BROWSER names another one)`);
  process.exit(0);
}
if (!existsSync(program)) {
  console.error(`${program} is not built: run \`cargo build -p rethread-cli --bins --examples\``);
  process.exit(1);
}
const wanted = process.argv.slice(2);
const files = readdirSync(here).filter((name) => name.endsWith(".test.mjs") && (wanted.length === 0 || wanted.some((word) => name.includes(word))));
const words = ["--test", "--test-concurrency=1", "--test-timeout=600000", ...files.map((name) => join(here, name))];
process.exit(spawnSync(process.execPath, words, { stdio: "inherit" }).status ?? 1);
