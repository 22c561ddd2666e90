// Measures the page in a real browser, against the real server: first view of a long list, a long session, and streaming. Fails if a
// bound is missed. `node bench.mjs [SECONDS]` streams for that long, a minute without it; `RETHREAD_PROFILE=release` measures that build.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { sessionPlace, visit } from "./page.mjs";
import { launch, Stage, until } from "./stage.mjs";

const seconds = Number(process.argv[2] ?? 60);
/** Chunks in a second, while streaming. */
const RATE = 200;
const rows = [];
/** Notes a value, in words, and whether it holds its bound. */
const report = (name, words, value, bound, isHeld = value <= bound) => {
  const verdict = bound === undefined ? "information" : isHeld ? "holds" : "MISSED";
  rows.push([name, words, bound === undefined ? "" : bound, verdict]);
  console.log(`${name}: ${words}${bound === undefined ? "" : ` (bound ${bound}: ${verdict})`}`);
};
const middle = (values) => [...values].sort((one, other) => one - other)[values.length >> 1];

const stage = new Stage();
const browser = await launch(["--enable-precise-memory-info", "--js-flags=--expose-gc"]);
try {
  makeSessions(stage, 10_000);
  await stage.serve();
  const token = stage.token();
  const client = await stage.client();

  await firstView(stage, token);
  const long = await longSession(client);
  await openLong(stage, token, long);
  if (seconds > 0) await streaming(stage, token, client);
} finally {
  await browser.close();
  await stage.end();
}

/** Sessions as a file, which is imported: making so many by the wire would take long. */
function makeSessions(on, number) {
  const words = ["retry", "cursor", "lease", "journal", "importer", "flaky test", "release notes", "schema"];
  const lines = [];
  for (let at = 0; at < number; at++) {
    const id = `00000000-0000-7000-8000-${String(at).padStart(12, "0")}`;
    lines.push({ id, title: `Look at the ${words[at % words.length]} (${at})`, cwd: `/work/project-${at % 120}` });
  }
  const file = join(on.folder, "sessions.jsonl");
  const template = exportTemplate(on);
  writeFileSync(file, lines.map((one) => template(one)).join(""));
  on.run("import", file);
}

/** The form of a session file, taken from an export of a session with one turn. */
function exportTemplate(on) {
  on.run("chat", "--agent", "scripted", "--yes", "say a short answer");
  const { id } = JSON.parse(on.run("list", "--json")).sessions[0];
  const exported = on.run("export", id, "--format", "jsonl", "--output", "-");
  return ({ id: other, title, cwd }) => `${exported.replaceAll(id, other).replaceAll(on.project, cwd).replaceAll("say a short answer", title)}\n`;
}

async function firstView(on, token) {
  const times = [];
  for (let run = 0; run < 5; run++) {
    const there = await visit(browser, on, { token });
    await there.page.locator("[data-row]").first().waitFor();
    times.push(await there.page.evaluate(() => performance.now()));
    if (run === 4) {
      const used = await memory(there.page);
      report("first view with 10,000 sessions: memory of scripts, MB", `${used} MB`, used, 20);
    }
    await there.close();
  }
  report("first view with 10,000 sessions: time, ms (middle of 5)", `${Math.round(middle(times))} ms`, middle(times), 500);
}

/** 10,000 messages in 100 turns. */
async function longSession(client) {
  const session = await client.session();
  for (let turn = 0; turn < 100; turn++) {
    const lines = Array.from({ length: 50 }, (_, at) => {
      const id = `${turn}-${at}`;
      const text = `Message ${id} with **some** \`words\`.\n\n- one\n- two\n\nAnd a paragraph that is long enough to wrap on a screen of a usual width, so that heights differ.`;
      return [
        `raw ${JSON.stringify({ sessionUpdate: "agent_message_chunk", messageId: `m${id}`, content: { type: "text", text } })}`,
        `raw ${JSON.stringify({ sessionUpdate: "tool_call_update", toolCallId: `c${id}`, title: `Read file ${id}`, kind: "read", status: "completed" })}`,
      ].join("\n");
    });
    await client.prompt(session, lines.join("\n"));
  }
  await client.prompt(session, "say the newest message");
  return session;
}

async function openLong(on, token, session) {
  const times = [];
  let there;
  for (let run = 0; run < 5; run++) {
    await there?.close();
    there = await visit(browser, on, { token, place: sessionPlace(session) });
    await there.page.locator("article.item-agent", { hasText: "the newest message" }).waitFor();
    times.push(await there.page.evaluate(() => performance.now()));
  }
  report("10,000 messages: time to the newest, ms (middle of 5)", `${Math.round(middle(times))} ms`, middle(times), 500);
  const { page } = there;
  const frames = await page.evaluate(() => new Promise((resolve) => {
    const box = document.querySelector("[data-timeline]");
    const gaps = [];
    let last = performance.now();
    const begin = last;
    const frame = (now) => {
      gaps.push(now - last);
      last = now;
      box.scrollTop -= 60;
      if (now - begin < 10_000) requestAnimationFrame(frame);
      else resolve(gaps.slice(1));
    };
    requestAnimationFrame(frame);
  }));
  const dropped = frames.reduce((sum, gap) => sum + Math.max(0, Math.round(gap / (1000 / 60)) - 1), 0);
  const share = (dropped / (dropped + frames.length)) * 100;
  report("10,000 messages: frames dropped in 10 s of scrolling up, %", `${dropped} of ${dropped + frames.length}, ${share.toFixed(1)}% (longest ${Math.round(Math.max(...frames))} ms)`, share, 5);
  await page.evaluate(async () => {
    const box = document.querySelector("[data-timeline]");
    for (let step = 0; step < 200; step++) {
      box.scrollTop = 0;
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  });
  const items = await page.locator("article").count();
  report("10,000 messages: items in the page after scrolling far up", items, items, 800);
  const used = await memory(page);
  report("10,000 messages: memory of scripts after that, MB", `${used} MB`, used, 30);
  await there.close();
}

async function streaming(on, token, client) {
  const session = await client.session();
  await client.prompt(session, "say begin");
  const there = await visit(browser, on, { token, place: sessionPlace(session) });
  const { page } = there;
  await page.locator("article.item-agent", { hasText: "begin" }).waitFor();
  const debug = await page.context().newCDPSession(page);
  // Processor time: what others do on the machine does not count.
  await debug.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => {
    const { metrics } = await debug.send("Performance.getMetrics");
    const value = (name) => metrics.find((one) => one.name === name)?.value ?? 0;
    return { task: value("TaskDuration"), script: value("ScriptDuration"), layout: value("LayoutDuration") + value("RecalcStyleDuration") };
  };
  const before = await busy();
  const begin = performance.now();
  const chunks = seconds * RATE;
  await client.begin(session, `paced ${RATE} ${chunks}`);
  await until("the stream ends", () => client.updates.some(({ sessionId, update }) => sessionId === session && update.state === "idle" && update.stopReason), (seconds * 2 + 60) * 1000);
  const took = (performance.now() - begin) / 1000;
  const after = await busy();
  const part = (name) => `${(after[name] - before[name]).toFixed(1)} s`;
  const rate = chunks / took;
  report("streaming: chunks in a second", `${rate.toFixed(0)} for ${took.toFixed(0)} s`, rate, RATE * 0.97, rate >= RATE * 0.97);
  const core = ((after.task - before.task) / took) * 100;
  report("streaming: processor time of the page, % of a core", `${core.toFixed(0)}% (${part("task")}; scripts ${part("script")}, layout ${part("layout")})`, core, 20);
  await page.locator("article.item-agent", { hasText: `c${chunks}` }).waitFor();
  await there.clean();
  await there.close();
}

async function memory(page) {
  return page.evaluate(() => {
    globalThis.gc?.();
    return Math.round((performance.memory.usedJSHeapSize / 1024 / 1024) * 10) / 10;
  });
}

console.log(`\n| measured | value | bound | |\n|---|---|---|---|\n${rows.map((row) => `| ${row.join(" | ")} |`).join("\n")}`);
process.exitCode = rows.some(([, , , verdict]) => verdict === "MISSED") ? 1 : 0;
