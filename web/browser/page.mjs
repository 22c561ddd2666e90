// A page of the server in a browser, and what it must never do: fail, break its policy, or speak to another server.

import assert from "node:assert/strict";

export class Visit {
  constructor(context, page) {
    this.context = context;
    this.page = page;
    this.problems = [];
  }

  /** Fails if a script failed, the content policy was broken, or another server was asked. */
  async clean() {
    const reports = await this.page.evaluate(() => globalThis.__violations ?? []);
    assert.deepEqual([...this.problems, ...reports], []);
  }

  async close() {
    await this.context.close();
  }
}

/** Opens the page with a token, or at an address with a code. */
export async function visit(browser, stage, { token, address, place = "#/", ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 820 }, permissions: ["clipboard-read", "clipboard-write"], ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const opened = new Visit(context, page);
  page.on("pageerror", (error) => opened.problems.push(`failed: ${error.message}`));
  page.on("console", (message) => {
    // Connections that fail while the server is away are expected.
    if (message.type() === "error" && !/ERR_CONNECTION|WebSocket|Failed to load resource/.test(message.text())) opened.problems.push(message.text());
  });
  page.on("request", (request) => {
    if (/^(https?|wss?):/.test(request.url()) && new URL(request.url()).host !== new URL(stage.url).host) opened.problems.push(`asked ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    opened.problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.addInitScript(() => {
    globalThis.__violations = [];
    document.addEventListener("securitypolicyviolation", (event) => globalThis.__violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
  });
  if (token !== undefined) {
    await page.addInitScript((value) => {
      if (location.protocol.startsWith("http") && sessionStorage.getItem("rethread.token") === null && !location.hash.includes("code=") && !location.hash.includes("share=")) sessionStorage.setItem("rethread.token", value);
    }, token);
  }
  await page.goto(address ?? `${stage.url}/${place}`);
  return opened;
}

export function sessionPlace(session, message) {
  return `#/session/${encodeURIComponent(session)}${message === undefined ? "" : `/${encodeURIComponent(message)}`}`;
}
