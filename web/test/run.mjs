// Bundles the unit tests and runs them with Node's own runner.

import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = mkdtempSync(join(tmpdir(), "rethread-web-"));
const entryPoints = readdirSync(here).filter((name) => name.endsWith(".test.ts")).map((name) => join(here, name));
await build({ entryPoints, outdir: out, bundle: true, format: "esm", platform: "node", target: "node20", outExtension: { ".js": ".mjs" }, logLevel: "warning" });
const files = readdirSync(out).map((name) => join(out, name));
const run = spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...files], { stdio: "inherit" });
rmSync(out, { recursive: true, force: true });
process.exit(run.status ?? 1);
