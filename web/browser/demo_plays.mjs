// What the agent of the pictures says: a few conversations with everything that a session can have.

const base64 = (text) => Buffer.from(text).toString("base64");
const text = (words) => ({ type: "text", text: words });
const said = (id, words) => ({ sessionUpdate: "agent_message_chunk", messageId: id, content: text(words) });
const thought = (id, words) => ({ sessionUpdate: "agent_thought_chunk", messageId: id, content: text(words) });
const call = (id, more) => ({ sessionUpdate: "tool_call_update", toolCallId: id, status: "completed", ...more });
const terminal = (id, command, output, exitCode) => ({ sessionUpdate: "terminal_update", terminalId: id, command, output: { data: base64(output) }, ...(exitCode === undefined ? {} : { exitStatus: { exitCode } }) });
const titled = (title) => ({ sessionUpdate: "session_info_update", title });
const usage = (used, amount) => ({ sessionUpdate: "usage_update", used, size: 200_000, cost: { amount, currency: "USD" } });
const plan = (...entries) => ({ sessionUpdate: "plan_update", plan: { type: "items", planId: "plan", entries: entries.map(([content, status]) => ({ content, status, priority: "medium" })) } });
const diff = (path, patch) => ({ type: "diff", changes: [{ operation: "modify", path, fileType: "text" }], patch: { format: "git_patch", text: patch } });

const [GREEN, RED, YELLOW, CYAN, BOLD, END] = ["\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[36m", "\x1b[1m", "\x1b[0m"];

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
const TESTS = `${BOLD}${GREEN}   Compiling${END} upload v0.4.1
${BOLD}${GREEN}     Running${END} tests/retry.rs

running 3 tests
test a_break_after_the_last_part ... ${GREEN}ok${END}
test two_breaks ... ${GREEN}ok${END}
test a_break_while_completing ... ${RED}FAILED${END}

${BOLD}${YELLOW}warning${END}: unused variable: ${CYAN}attempt${END}
test result: ${RED}FAILED${END}. 2 passed; 1 failed; finished in 0.41s
`;
const ANSWER = "The retry is idempotent now:\n\n1. `IdempotencyKey::of` hashes the upload's id and its parts, so that **the same upload has the same key**, also in another process.\n2. `complete()` sends the key.\n\n```rust\nlet key = IdempotencyKey::of(&self.upload);\nself.client.complete(self.upload.id(), &key).await?;\n```\n\n| case | before | now |\n|---|---|---|\n| break before the last part | one upload | one upload |\n| break after it | **two** uploads | one upload |";

export const OPTIONS = [
  { configId: "mode", name: "Mode", category: "mode", type: "select", currentValue: "ask", options: [{ value: "ask", name: "Ask first" }, { value: "auto", name: "Accept edits" }, { value: "plan", name: "Plan only" }] },
  { configId: "model", name: "Model", category: "model", type: "select", currentValue: "large", options: [{ value: "large", name: "Large" }, { value: "small", name: "Small" }] },
  { configId: "effort", name: "Effort", category: "thought_level", type: "select", currentValue: "high", options: [{ value: "low", name: "Low effort" }, { value: "high", name: "High effort" }] },
];
export const COMMANDS = { sessionUpdate: "available_commands_update", availableCommands: [{ name: "review", description: "Review the changes of this branch" }, { name: "test", description: "Run the tests and fix what fails" }, { name: "compact", description: "Summarise the conversation to free context" }] };
export const RETRY = "Uploads are sometimes stored twice when the connection breaks after the last part. Make the retry idempotent.";
export const BENCH = "Does it cost anything? Run the benchmark.";
export const WHY = "Why does the nightly build take 40 minutes?";
export const AGENTS = "Look for other callers of complete(), in parallel.";
export const WORK = "Then fix the failing test.";

const permission = (id, title, command) => async ({ session, cwd, update, ask }) => {
  const toolCall = { toolCallId: id, title: command, kind: "execute", status: "pending", rawInput: { command, cwd } };
  update({ sessionUpdate: "tool_call_update", ...toolCall });
  update({ sessionUpdate: "state_update", state: "requires_action" });
  const options = [{ optionId: "yes", name: "Allow once", kind: "allow_once" }, { optionId: "always", name: "Always allow cargo bench", kind: "allow_always" }, { optionId: "no", name: "Reject", kind: "reject_once" }];
  await ask("session/request_permission", { sessionId: session, title, subject: { type: "tool_call", toolCall }, options });
  update({ sessionUpdate: "state_update", state: "running" });
};

export const PLAYS = {
  [RETRY]: [
    titled("Make the retry of uploads idempotent"),
    COMMANDS,
    thought("t1", "The retry loop calls complete() again without checking whether the first call has succeeded. The server may have stored the upload although the answer was lost."),
    said("m1", "I'll look at the retry loop first, then at what the server offers."),
    ({ cwd, update }) => {
      update(call("c1", { title: "Read upload/src/retry.rs", kind: "read", locations: [{ path: `${cwd}/upload/src/retry.rs`, line: 38 }] }));
      update(call("c2", { title: "Edit upload/src/retry.rs", kind: "edit", content: [diff(`${cwd}/upload/src/retry.rs`, PATCH)] }));
    },
    terminal("term1", "cargo test -p upload retry", TESTS, 101),
    call("c3", { title: "cargo test -p upload retry", kind: "execute", status: "failed", content: [{ type: "terminal", terminalId: "term1" }] }),
    said("m2", ANSWER),
    usage(68_200, 0.42),
  ],
  [AGENTS]: [
    said("m3", "Two helpers look for them."),
    ({ session, update }) => {
      for (const [name, title, found] of [["a", "Search the server", "`server/src/admin.rs` calls `complete()` when an operator finishes an upload by hand. It needs the key, too."], ["b", "Search the clients", "The command line goes through `Retry`: nothing to do."]]) {
        const child = `${session}-${name}`;
        update({ sessionUpdate: "subagent_update", sessionId: child, title });
        update(call(`${name}1`, { title: `Search for complete( in ${name === "a" ? "server" : "cli"}`, kind: "search" }), child);
        update(said(`${name}2`, found), child);
      }
    },
    { sessionUpdate: "compaction_update", compactionId: "k1", status: "completed", summary: [text("The retry of uploads sends an idempotency key. One caller, `server/src/admin.rs`, does not yet.")] },
    said("m4", "One more caller needs the key: `server/src/admin.rs`."),
    usage(21_900, 0.61),
  ],
  [WORK]: [
    plan(["Reproduce the failure", "completed"], ["Send the key in complete()", "in_progress"], ["Run the tests", "pending"]),
    said("m5", "The test breaks the connection while the upload is completed. I run it alone first."),
    terminal("term2", "cargo test -p upload a_break_while_completing", `${BOLD}${GREEN}   Compiling${END} upload v0.4.1\n`),
    call("c5", { title: "cargo test -p upload a_break_while_completing", kind: "execute", status: "in_progress", content: [{ type: "terminal", terminalId: "term2" }] }),
    () => new Promise(() => {}),
  ],
  [BENCH]: [said("m6", "The benchmark needs the release build, which takes a while. I ask first."), permission("c6", "Run the benchmark?", "cargo bench -p upload --bench retry -- --save-baseline main")],
  [WHY]: [titled("Why does the nightly build take 40 minutes?"), said("m7", "I measure the steps of the build."), permission("c7", "Run the build?", "cargo build --release --timings")],
};
for (const title of ["Draft the release notes", "Fix the flaky test of the cursor", "تحسين سرعة البحث في الرسائل", "Explain how leases are renewed", "Add a flag --json to list"]) {
  PLAYS[title] = [titled(title), said("m1", `${title}: done.`), usage(12_400, 0.08)];
}
