// Builds the page into dist: bundled, minified, with names that change with the content, and compressed.
// `node build.mjs FOLDER` writes elsewhere. The same sources give the same files.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "dist");
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022", "chrome109", "firefox115", "safari16"],
  minify: true,
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  metafile: true,
  logLevel: "warning",
});

const entry = Object.entries(result.metafile.outputs).find(([, output]) => output.entryPoint === "src/main.tsx");
const script = basename(entry[0]);
const style = basename(entry[1].cssBundle);

const icon = readFileSync(join(here, "src/icon.svg"));
const iconName = `icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8).toUpperCase()}.svg`;
writeFileSync(join(out, iconName), icon);

// The licences of what is bundled.
const bundled = Object.keys(result.metafile.inputs).flatMap((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
const licences = [...new Set(bundled)].sort().map((name) => {
  const folder = join(here, "node_modules", name);
  const file = readdirSync(folder).find((entry) => /^licen[sc]e/i.test(entry));
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return `${name} ${version} (${license})\n\n${file === undefined ? "" : readFileSync(join(folder, file), "utf8").trim()}\n`;
});
writeFileSync(join(out, "licences.txt"), licences.join("\n---\n\n"));

const page = readFileSync(join(here, "src/index.html"), "utf8");
const filled = page.replace("{script}", script).replace("{style}", style).replace("{icon}", iconName);
writeFileSync(join(out, "index.html"), filled);

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
};
const files = readdirSync(out).sort();
let first = 0;
const rows = files.map((name) => {
  const content = readFileSync(join(out, name));
  const packed = brotliCompressSync(content, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length },
  });
  const zipped = gzipSync(content, { level: 9 });
  writeFileSync(join(out, `${name}.br`), packed);
  writeFileSync(join(out, `${name}.gz`), zipped);
  if ([script, style, "index.html", iconName].includes(name)) first += zipped.length;
  const kind = TYPES[extname(name)];
  console.log(`${name}: ${content.length} bytes, br ${packed.length}, gz ${zipped.length}`);
  const etag = createHash("sha256").update(content).digest("hex").slice(0, 16);
  const path = name === "index.html" ? "/" : `/${name}`;
  return `    embedded!("${path}", "${name}", "${kind}", "${etag}"),\n`;
});
// What imports the entry statically is part of the first view, too.
for (const imported of entry[1].imports) {
  if (imported.kind === "import-statement") first += gzipSync(readFileSync(join(out, basename(imported.path))), { level: 9 }).length;
}
writeFileSync(join(out, "files.in"), `// Written by web/build.mjs.\n[\n${rows.join("")}]\n`);
console.log(`first view: ${first} bytes compressed by gzip`);
if (first > 150_000) {
  console.error("the first view is larger than 150 KB");
  process.exit(1);
}
