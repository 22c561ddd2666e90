// Takes the pictures of the documentation: the real page and server, with a scripted agent. `node pictures.mjs [FOLDER]`.

import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { sessionPlace, visit } from "./page.mjs";
import { launch, Stage } from "./stage.mjs";

const out = process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), "../../docs/pictures");
mkdirSync(out, { recursive: true });

const raw = (update) => `raw ${JSON.stringify(update)}`;
const said = (id, text) => raw({ sessionUpdate: "agent_message_chunk", messageId: id, content: { type: "text", text } });
const call = (id, more) => raw({ sessionUpdate: "tool_call_update", toolCallId: id, status: "completed", ...more });
const base64 = (text) => Buffer.from(text).toString("base64");
const PATCH = `diff --git a/upload/src/retry.rs b/upload/src/retry.rs
--- a/upload/src/retry.rs
+++ b/upload/src/retry.rs
@@ -38,8 +38,10 @@ impl Retry {
     /// Sends all parts, and completes the upload.
     pub async fn run(&mut self) -> Result<Receipt, UploadError> {
+        let key = IdempotencyKey::of(&self.upload);
         for part in self.upload.parts() {
             self.send(part).await?;
         }
-        self.client.complete(self.upload.id()).await
+        // The server answers a second call with the first receipt.
+        self.client.complete(self.upload.id(), &key).await
     }
`;
const OUTPUT = "\x1b[1m\x1b[32m   Compiling\x1b[0m upload v0.4.1\n\x1b[1m\x1b[32m     Running\x1b[0m tests/retry.rs\n\nrunning 2 tests\ntest a_break_after_the_last_part ... \x1b[32mok\x1b[0m\ntest two_breaks ... \x1b[32mok\x1b[0m\n";
const ANSWER = "The retry is idempotent now:\n\n1. `IdempotencyKey::of` hashes the upload's id and its parts, so that **the same upload has the same key**, also in another process.\n2. `complete()` sends the key.\n\n```rust\nlet key = IdempotencyKey::of(&self.upload);\nself.client.complete(self.upload.id(), &key).await?;\n```\n\n| case | before | now |\n|---|---|---|\n| break before the last part | one upload | one upload |\n| break after it | **two** uploads | one upload |";

const stage = await new Stage().serve();
const browser = await launch();
try {
  const token = stage.token();
  const client = await stage.client();
  for (const [project, title] of [["notes", "Draft the release notes"], ["atlas-api", "Fix the flaky test of the cursor"], ["atlas-api", "تحسين سرعة البحث في الرسائل"], ["lighthouse", "Explain how leases are renewed"], ["lighthouse", "Add a flag --json to list"]]) {
    await client.prompt(await client.session(join(stage.folder, "work", project)), `title ${title}; say done`);
  }
  const waiting = await client.session();
  await client.prompt(waiting, "title Why does the nightly build take 40 minutes?");
  await client.begin(waiting, "permit");
  const session = await client.session();
  await client.prompt(session, [
    "title Make the retry of uploads idempotent",
    "think The retry loop calls complete() again without checking whether the first call has succeeded.",
    said("m1", "I'll look at the retry loop first, then at what the server offers."),
    call("c1", { title: "Read upload/src/retry.rs", kind: "read" }),
    call("c2", { title: "Edit upload/src/retry.rs", kind: "edit", content: [{ type: "diff", changes: [{ operation: "modify", path: `${stage.project}/upload/src/retry.rs`, fileType: "text" }], patch: { format: "git_patch", text: PATCH } }] }),
    raw({ sessionUpdate: "terminal_update", terminalId: "t1", command: "cargo test -p upload retry", output: { data: base64(OUTPUT) }, exitStatus: { exitCode: 0 } }),
    call("c3", { title: "cargo test -p upload retry", kind: "execute", content: [{ type: "terminal", terminalId: "t1" }] }),
    said("m2", ANSWER),
    "usage 68200/200000",
  ].join("\n"));

  const shot = async (name, place, options, act = async () => {}) => {
    const there = await visit(browser, stage, { token, place, ...options });
    await there.page.locator("article, [data-row]").first().waitFor();
    await act(there.page);
    await there.page.waitForTimeout(700);
    await there.page.screenshot({ path: join(out, `${name}.png`) });
    await there.close();
  };
  const size = (width, height) => ({ viewport: { width, height } });
  const diff = async (page) => {
    await page.locator(".diff").first().waitFor();
    await page.locator("article", { has: page.locator(".diff") }).first().evaluate((item) => item.scrollIntoView({ block: "start" }));
  };
  await shot("list", "#/", size(1100, 700));
  await shot("diff", sessionPlace(session), size(1100, 820), diff);
  await shot("dark", sessionPlace(session), { ...size(1100, 820), colorScheme: "dark" }, diff);
  await client.begin(session, "say The benchmark needs the release build. I ask first.\npermit");
  const asked = (page) => page.getByRole("region", { name: "Question of the agent" }).waitFor();
  await shot("session", sessionPlace(session), size(1100, 780), asked);
  await shot("phone", sessionPlace(session), size(390, 800), asked);
} finally {
  await browser.close();
  await stage.end();
}
