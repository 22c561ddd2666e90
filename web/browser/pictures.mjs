// Takes the pictures of the documentation: the real page and server, with an agent that knows a few conversations.
// `node pictures.mjs [FOLDER]`; with `RETHREAD_ALL_PICTURES` it takes more, to look at the page in all its states.

import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { AGENTS, BENCH, RETRY, WHY, WORK } from "./demo_plays.mjs";
import { sessionPlace, visit } from "./page.mjs";
import { launch, Stage } from "./stage.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../../docs/pictures");
const all = process.env.RETHREAD_ALL_PICTURES !== undefined;
mkdirSync(out, { recursive: true });

const stage = new Stage({ demo: [process.execPath, join(here, "demo_agent.mjs")] }, "/tmp/work");
await stage.serve();
const browser = await launch();
const size = (width, height) => ({ viewport: { width, height } });
const DARK = { colorScheme: "dark" };
const PHONE = { ...size(390, 844), hasTouch: true, isMobile: true, deviceScaleFactor: 2 };

try {
  const token = stage.token();
  const client = await stage.client("demo");
  const project = (name) => join(stage.work, name);
  for (const [folder, title] of [["notes", "Draft the release notes"], ["atlas-api", "Fix the flaky test of the cursor"], ["atlas-api", "تحسين سرعة البحث في الرسائل"], ["lighthouse", "Explain how leases are renewed"], ["lighthouse", "Add a flag --json to list"]]) {
    await client.prompt(await client.session(project(folder)), title);
  }
  await client.begin(await client.session(), WHY);
  const session = await client.session();
  await client.prompt(session, RETRY);

  const shot = async (name, place, options, act = async () => {}) => {
    const there = await visit(browser, stage, { token, place, ...options });
    await there.page.locator("article, [data-row], .chart, h1:text('cannot be shown')").first().waitFor();
    await act(there.page);
    await there.page.waitForTimeout(700);
    await there.page.screenshot({ path: join(out, `${name}.png`) });
    await there.close();
  };
  const at = sessionPlace(session);
  const diff = async (page) => {
    await page.locator(".diff").first().waitFor();
    await page.locator("article", { has: page.locator(".diff") }).first().evaluate((item) => item.scrollIntoView({ block: "start" }));
  };
  await shot("list", "#/", size(1100, 700));
  await shot("diff", at, size(1100, 820), diff);
  await shot("dark", at, { ...size(1100, 820), ...DARK }, diff);
  await client.prompt(session, AGENTS);
  if (all) await more(shot, at, diff);
  await client.begin(session, BENCH);
  const asked = (page) => page.getByRole("region", { name: "Question of the agent" }).waitFor();
  await shot("session", at, size(1100, 780), asked);
  await shot("phone", at, PHONE, asked);
  if (all) {
    const working = await client.session();
    await client.prompt(working, RETRY);
    await client.begin(working, WORK);
    await shot("running", sessionPlace(working), size(1100, 820), (page) => page.locator(".open-plan").waitFor());
  }
  if (all) await shot("permission-dark", at, { ...size(1100, 780), ...DARK }, asked);
} finally {
  await browser.close();
  await stage.end();
}

async function more(shot, at, diff) {
  const type = (words) => async (page) => {
    await page.getByRole("searchbox").fill(words);
    await page.locator("mark").first().waitFor();
  };
  await shot("beginning", at, size(1100, 820), async (page) => page.locator("[data-timeline]").evaluate((box) => (box.scrollTop = 0)));
  await shot("terminal", at, size(1100, 820), async (page) => {
    const head = page.locator(".tool-head", { hasText: "cargo test" }).first();
    await head.click();
    await head.evaluate((item) => item.scrollIntoView({ block: "center" }));
  });
  await shot("subagents", at, size(1100, 820));
  await shot("phone-session", at, PHONE);
  await shot("phone-diff", at, { ...PHONE, ...DARK }, diff);
  await shot("phone-list", "#/", PHONE);
  await shot("phone-usage", "#/usage", PHONE);
  await shot("list-dark", "#/", { ...size(1100, 700), ...DARK });
  await shot("search", "#/", size(1100, 700), type("complete"));
  await shot("usage", "#/usage", size(1100, 820));
  await shot("usage-dark", "#/usage", { ...size(1100, 820), ...DARK });
  await shot("help", "#/", size(1100, 700), (page) => page.keyboard.press("?"));
  await shot("menu", at, size(1100, 820), (page) => page.getByRole("button", { name: "Actions for this session" }).click());
  await shot("commands", at, size(1100, 820), async (page) => {
    await page.evaluate(() => {
      const bytes = Uint8Array.from(atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="), (one) => one.charCodeAt(0));
      const data = new DataTransfer();
      data.items.add(new File([bytes], "dot.png", { type: "image/png" }));
      document.querySelector("#prompt").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    });
    await page.getByLabel("Prompt", { exact: true }).fill("/");
  });
  await shot("new-below", at, size(1100, 820), async (page) => {
    await page.locator("[data-timeline]").evaluate((box) => (box.scrollTop = 200));
    await page.waitForTimeout(300);
    await page.getByLabel("Prompt", { exact: true }).fill("");
  });
  await shot("archived", "#/", size(1100, 700), async (page) => page.getByRole("button", { name: "Archived" }).click());
  await shot("not-found", "#/session/none", size(1100, 700), async (page) => page.getByText("no such session").waitFor());
}
