// Following and steering sessions: prompts, questions, cancelling, options, forks, lost connections, several browsers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { sessionPlace, visit } from "./page.mjs";
import { launch, Stage, until } from "./stage.mjs";

let stage, browser, token, client;

before(async () => {
  stage = await new Stage().serve();
  browser = await launch();
  token = stage.token();
  client = await stage.client();
});

after(async () => {
  await browser?.close();
  await stage?.end();
});

async function opened(script = "say hello", options = {}) {
  const session = await client.session();
  await client.prompt(session, script);
  const there = await visit(browser, stage, { token, place: sessionPlace(session), ...options });
  await there.page.locator("article.item-agent").first().waitFor();
  return { session, ...there, page: there.page, there };
}

async function send(page, text) {
  await page.getByLabel("Prompt", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

const answer = (page, text) => page.locator("article.item-agent", { hasText: text });

test("a turn of somebody else is followed as it happens", async () => {
  const { session, page, there } = await opened();
  await client.begin(session, "chunks 200; hang");
  await answer(page, "c200").waitFor();
  await page.locator(".session-facts", { hasText: "Running" }).waitFor();
  await page.getByText("Also here: editor").waitFor({ state: "attached" });
  client.send({ method: "session/cancel", params: { sessionId: session } });
  await page.locator(".marker", { hasText: "Cancelled" }).waitFor();
  await page.locator(".session-facts", { hasText: "Idle" }).waitFor();
  const said = await answer(page, "c200").innerText();
  assert.deepEqual(said.match(/c\d+/g), Array.from({ length: 200 }, (_, at) => `c${at + 1}`), "nothing is missing or doubled");
  await there.clean();
  await there.close();
});

test("a prompt is sent, and its answer comes", async () => {
  const { page, there } = await opened();
  await send(page, "say to the web");
  await answer(page, "to the web").waitFor();
  assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "");
  assert.equal(await page.locator("article.item-user", { hasText: "to the web" }).count(), 1);
  await page.getByLabel("Prompt", { exact: true }).fill("say one\nsay two");
  await page.keyboard.press("Enter");
  await answer(page, "two").waitFor();
  await there.clean();
  await there.close();
});

test("commands are offered, and options are chosen", async () => {
  const { session, page, there } = await opened("commands plan,test; say ok");
  await page.getByLabel("Prompt", { exact: true }).fill("/pl");
  const plan = page.getByRole("option", { name: /\/plan/ });
  await plan.waitFor();
  const isOnTop = await plan.evaluate((element) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(left + width / 2, top + height / 2));
  });
  assert.ok(isOnTop, "the commands are not cut off or covered");
  await page.keyboard.press("Tab");
  assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "/plan ");
  const mode = page.getByLabel("Mode", { exact: true });
  await mode.waitFor();
  const values = await mode.locator("option").evaluateAll((all) => all.map((one) => one.value));
  const other = values.find((value) => value !== values[0]);
  await mode.selectOption(other);
  await until("the agent has the mode", () => client.updates.some(({ sessionId, update }) => sessionId === session && update.sessionUpdate === "config_option_update" && JSON.stringify(update).includes(`"currentValue":"${other}"`)));
  await there.clean();
  await there.close();
});

test("a permission question is answered, and both others hear of it", async () => {
  const { session, page, there } = await opened();
  const second = await visit(browser, stage, { token, place: sessionPlace(session) });
  await second.page.locator("article").first().waitFor();
  await client.begin(session, "permit");
  const question = (on) => on.getByRole("region", { name: "Question of the agent" });
  await question(page).getByText("Run it?").waitFor();
  await question(second.page).waitFor();
  assert.match(await page.title(), /^●/);
  const list = await visit(browser, stage, { token });
  await list.page.locator(".row-question", { hasText: "Run it?" }).waitFor();
  await list.page.waitForFunction(() => document.title.startsWith("(1)"));
  await question(page).getByRole("button", { name: "Yes" }).click();
  await question(page).waitFor({ state: "detached" });
  await question(second.page).waitFor({ state: "detached" });
  await second.page.getByText("answered by another client").waitFor();
  await answer(page, "yes").waitFor();
  await client.idle(session);
  await list.page.locator(".row-question").waitFor({ state: "detached" });
  for (const one of [there, second, list]) {
    await one.clean();
    await one.close();
  }
});

test("two browsers answer at the same moment: one wins, the other says so", async () => {
  const { session, page, there } = await opened();
  const second = await visit(browser, stage, { token, place: sessionPlace(session) });
  await second.page.locator("article").first().waitFor();
  const pages = [page, second.page];
  for (let round = 1; round <= 5; round++) {
    await client.begin(session, "permit");
    const buttons = [page.getByRole("button", { name: "Yes" }), second.page.getByRole("button", { name: "No", exact: true })];
    await Promise.all(buttons.map((button) => button.waitFor()));
    await Promise.all(buttons.map((button) => button.evaluate((element) => element.click()).catch(() => {})));
    await client.idle(session);
    // What the agent heard is on both pages, once, and the page whose answer it was not says so.
    const heard = pages.map((on) => on.locator("article.item-agent", { hasText: "permission: selected" }));
    await Promise.all(heard.map((all) => all.nth(round - 1).waitFor()));
    const words = await heard[0].last().innerText();
    assert.deepEqual(await Promise.all(heard.map((all) => all.count())), [round, round]);
    assert.equal(await heard[1].last().innerText(), words);
    const [winner, loser] = words.includes("yes") ? pages : [...pages].reverse();
    const said = loser.locator(".notice", { hasText: /Another client answered “Run it\?” first|“Run it\?” was answered by another client/ });
    await said.waitFor();
    assert.equal(await winner.locator(".notice").count(), 0, "the winner is told nothing");
    await said.getByRole("button", { name: "Dismiss" }).click();
    for (const on of pages) await on.getByRole("region", { name: "Question of the agent" }).waitFor({ state: "detached" });
  }
  for (const one of [there, second]) {
    await one.clean();
    await one.close();
  }
});

test("a form is filled in", async () => {
  const { page, there } = await opened();
  await send(page, "elicit");
  await page.getByLabel(/name/i).last().fill("Ada");
  await page.getByRole("region", { name: "Question of the agent" }).getByRole("button", { name: "Send" }).click();
  await answer(page, "Ada").waitFor();
  await there.clean();
  await there.close();
});

test("a turn is cancelled", async () => {
  const { page, there } = await opened();
  await send(page, "say begun; hang");
  await answer(page, "begun").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".marker", { hasText: "Cancelled" }).waitFor();
  await there.clean();
  await there.close();
});

test("a failed turn says why", async () => {
  const { page, there } = await opened();
  await send(page, "fail");
  await page.locator(".marker-bad").waitFor();
  await there.clean();
  await there.close();
});

test("a session is forked at a message, renamed, archived and deleted", async () => {
  const { session, page, there } = await opened("say first");
  await client.prompt(session, "say second");
  await answer(page, "second").waitFor();
  const message = page.locator("article.item-agent", { hasText: "first" });
  await message.hover();
  await message.getByRole("button", { name: "Fork from here" }).click();
  await page.waitForURL((url) => !url.href.includes(encodeURIComponent(session)));
  await answer(page, "first").waitFor();
  assert.equal(await answer(page, "second").count(), 0);
  await send(page, "say apart");
  await answer(page, "apart").waitFor();
  const act = async (name) => {
    await page.getByRole("button", { name: "Actions for this session" }).click();
    await page.getByRole("menuitem", { name }).click();
  };
  await act("Rename…");
  await page.getByLabel("Title").fill("A fork in the road");
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByRole("heading", { name: "A fork in the road" }).waitFor();
  await act("Archive");
  await page.getByRole("heading", { name: "Sessions" }).waitFor();
  await page.getByRole("link", { name: /A fork in the road/ }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Archived" }).click();
  await page.getByRole("link", { name: /A fork in the road/ }).click();
  await answer(page, "apart").waitFor();
  await act("Delete…");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "Sessions" }).waitFor();
  await page.getByRole("button", { name: "All" }).click();
  assert.equal(await page.getByRole("link", { name: /A fork in the road/ }).count(), 0);
  await there.clean();
  await there.close();
});

test("a new session is begun from the list, and the list shows it to others", async () => {
  const list = await visit(browser, stage, { token });
  const { page, ...there } = await visit(browser, stage, { token });
  await page.getByRole("button", { name: "New" }).click();
  await page.getByLabel("Folder on the server").fill(stage.project);
  await page.getByRole("button", { name: "Begin" }).click();
  await page.waitForURL(/session/);
  await send(page, "title Begun on the web; say hi");
  await answer(page, "hi").waitFor();
  await list.page.getByRole("link", { name: /Begun on the web/ }).waitFor();
  await list.clean();
  await list.close();
  await there.context.close();
});

test("what is read stays in its place, and new messages are marked", async () => {
  const { session, page, there } = await opened(Array.from({ length: 60 }, (_, at) => `say paragraph ${at}\ntool call_${at}`).join("\n"));
  const top = () => page.evaluate(() => document.querySelector("[data-timeline]").scrollTop);
  await page.evaluate(() => { const box = document.querySelector("[data-timeline]"); box.scrollTop = box.scrollHeight / 2; });
  await page.waitForTimeout(300);
  const before = await page.evaluate(() => [...document.querySelectorAll("[data-key]")].map((one) => [one.dataset.key, one.getBoundingClientRect().top]).find(([, y]) => y > 80));
  await client.prompt(session, "chunks 50; say the last word");
  await page.getByRole("button", { name: "New below" }).waitFor();
  const now = await page.evaluate((key) => document.querySelector(`[data-key="${key}"]`).getBoundingClientRect().top, before[0]);
  assert.ok(Math.abs(now - before[1]) < 2, `it moved by ${now - before[1]}`);
  assert.ok((await top()) > 0);
  await page.getByRole("button", { name: "New below" }).click();
  await answer(page, "the last word").waitFor();
  await page.waitForFunction(() => { const box = document.querySelector("[data-timeline]"); return box.scrollHeight - box.scrollTop - box.clientHeight < 60; });
  await there.clean();
  await there.close();
});

test("the server is restarted: said, connected again, without a gap or a double; the draft is kept", async () => {
  const own = await new Stage().serve();
  try {
    const editor = await own.client();
    const session = await editor.session();
    await editor.prompt(session, "say before");
    const there = await visit(browser, own, { token: own.token(), place: sessionPlace(session) });
    const { page } = there;
    await answer(page, "before").waitFor();
    await page.getByLabel("Prompt", { exact: true }).fill("say after");
    await own.kill();
    await page.getByText("Trying again…").waitFor();
    assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
    await own.serve(own.port);
    await page.getByText("Trying again…").waitFor({ state: "detached", timeout: 40_000 });
    assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "say after");
    const again = await own.client();
    await again.request("session/resume", { sessionId: session, cwd: own.project, mcpServers: [] });
    await again.prompt(session, "say meanwhile");
    await answer(page, "meanwhile").waitFor();
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator("article.item-agent", { hasText: /^after/ }).waitFor();
    for (const text of ["before", "meanwhile", "after"]) {
      assert.equal(await page.locator("article.item-agent", { hasText: new RegExp(`^${text}`) }).count(), 1, text);
    }
    await there.clean();
    await there.close();
  } finally {
    await own.end();
  }
});

test("a connection that breaks in the middle of an answer goes on", async () => {
  const { session, page, context, there } = await opened();
  const running = client.begin(session, "slow 600; say over");
  await answer(page, "s20").or(answer(page, "c20")).first().waitFor();
  await context.setOffline(true);
  await page.evaluate(() => dispatchEvent(new Event("offline")));
  await page.waitForTimeout(500);
  await context.setOffline(false);
  await running;
  await client.idle(session);
  await answer(page, "over").waitFor({ timeout: 40_000 });
  await there.close();
});

test("a prompt whose answer was lost is sent once", async () => {
  const { session, page, there } = await opened();
  // The connection is cut right after the prompt went out.
  await page.evaluate(() => {
    const send = WebSocket.prototype.send;
    WebSocket.prototype.send = function (data) {
      send.call(this, data);
      if (String(data).includes("session/prompt")) {
        WebSocket.prototype.send = send;
        this.onmessage = null;
        setTimeout(() => this.close(), 50);
      }
    };
  });
  await send(page, "say exactly once");
  await answer(page, "exactly once").waitFor({ timeout: 40_000 });
  await page.locator(".item-sent").waitFor({ state: "detached" });
  const { items } = await client.request("_rethread/read", { sessionId: session });
  assert.equal(items.filter(({ update }) => update?.sessionUpdate === "user_message" && JSON.stringify(update).includes("exactly once")).length, 1);
  assert.equal(await page.locator("article.item-user", { hasText: "exactly once" }).count(), 1);
  assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "");
  await there.close();
});

test("an observer sees all, and can do nothing", async () => {
  const session = await client.session();
  await client.prompt(session, "say look");
  const there = await visit(browser, stage, { token: stage.token("observer"), place: sessionPlace(session) });
  const { page } = there;
  await answer(page, "look").waitFor();
  assert.equal(await page.getByLabel("Prompt", { exact: true }).count(), 0);
  await page.getByText("You are looking on").waitFor();
  await client.begin(session, "permit");
  const question = page.getByRole("region", { name: "Question of the agent" });
  await question.waitFor();
  assert.ok(await question.getByRole("button", { name: "Yes" }).isDisabled());
  const request = await until("the editor is asked", () => client.requests.find(({ params }) => params.sessionId === session));
  client.answer(request, { outcome: { outcome: "selected", optionId: "yes" } });
  await question.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Actions for this session" }).click();
  assert.equal(await page.getByRole("menuitem", { name: "Delete…" }).count(), 0);
  await there.clean();
  await there.close();
});

test("an image is pasted", async () => {
  const { page, there } = await opened();
  await page.getByLabel("Prompt", { exact: true }).focus();
  await page.evaluate(() => {
    const bytes = Uint8Array.from(atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="), (one) => one.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], "dot.png", { type: "image/png" }));
    document.querySelector("#prompt").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await page.getByAltText("Pasted image 1").waitFor();
  await page.getByRole("button", { name: "Send" }).click();
  await answer(page, "got a image").waitFor();
  await page.locator("article.item-user img.picture").waitFor();
  await there.clean();
  await there.close();
});
