// Starts the page: connects, shows the place that the address names, and what stands between the user and it.

import "./style/page.css";
import { signal } from "@preact/signals";
import { render } from "preact";
import { readPlace, type Place } from "./core/address.ts";
import { visible } from "./core/visible.ts";
import { hello, link, otherVersion, signIn, start } from "./state/link.ts";
import { sessions } from "./state/list.ts";
import { startQuestions } from "./state/questions.ts";
import { helpOpen, SHORTCUTS, startKeys } from "./ui/keys.ts";
import { ListPage } from "./ui/list.tsx";
import { Dialog, Notices } from "./ui/parts.tsx";
import { SessionPage } from "./ui/session.tsx";
import { UsagePage } from "./ui/usage.tsx";

const place = signal<Place>({ page: "list" });
/** How long the list waits for the session that is shown, in milliseconds. */
const AFTER_SESSION = 300;

function App() {
  const state = link.value;
  const said = hello.value;
  if (state.phase === "signed-out") return <SignedOut reason={state.reason} />;
  if (said === undefined) return <Connecting reason={state.phase === "lost" ? state.reason : undefined} />;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.querySelector<HTMLElement>("#main")?.focus())}>Skip to the content</a>
      {state.phase !== "ready" && <p class="banner" role="status">{state.phase === "lost" ? `${state.reason} Trying again…` : "Connecting…"}</p>}
      <OtherVersion />
      <Content place={said.session === undefined ? place.value : inShare(said.session, place.value)} />
      <Notices />
      {helpOpen.value && <Help />}
    </>
  );
}

function OtherVersion() {
  const said = otherVersion.value;
  if (said === undefined) return null;
  return (
    <p class="banner banner-info" role="status">
      {visible(said)} <button type="button" onClick={() => location.reload()}>Reload the page</button>
    </p>
  );
}

/** A shared view has one session, whatever the address says. */
function inShare(session: string, at: Place): Place {
  return at.page === "session" ? at : { page: "session", session };
}

function Content({ place: at }: { place: Place }) {
  switch (at.page) {
    case "session":
      return <SessionPage key={at.session} id={at.session} message={at.message} />;
    case "usage":
      return <UsagePage />;
    case "project":
      return <ListPage cwd={at.cwd} />;
    case "list":
      return <ListPage cwd={undefined} />;
  }
}

function Connecting({ reason }: { reason: string | undefined }) {
  return (
    <main class="message-page">
      <h1>Rethread</h1>
      <OtherVersion />
      <p class="muted" role="status">{reason === undefined ? "Connecting…" : `${reason} Trying again…`}</p>
    </main>
  );
}

function SignedOut({ reason }: { reason: string }) {
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    const typed = String(new FormData(event.currentTarget as HTMLFormElement).get("token") ?? "");
    if (typed.trim() !== "") signIn(typed);
  };
  return (
    <main class="message-page" id="main">
      <h1>Rethread</h1>
      <p role="alert">{withCode(reason)}</p>
      <form onSubmit={send}>
        <label class="field">
          <span class="field-name">Or enter a token</span>
          <input name="token" type="password" autocomplete="off" spellcheck={false} required />
          <span class="muted">It is kept for this tab only. <code>rethread token new</code> makes one.</span>
        </label>
        <div class="choices"><button type="submit" class="choice primary">Open</button></div>
      </form>
    </main>
  );
}

/** Words between backticks as code. */
function withCode(text: string) {
  return visible(text).split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
}

function Help() {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (helpOpen.value = false)}>
      <dl class="shortcuts">
        {SHORTCUTS.map(([key, words]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{words}</dd></div>)}
      </dl>
    </Dialog>
  );
}

function follow(): void {
  const before = place.value;
  place.value = readPlace(location.hash);
  if (before.page !== place.value.page) document.scrollingElement?.scrollTo({ top: 0 });
}

startKeys();
startQuestions();
void start().then(() => {
  follow();
  window.addEventListener("hashchange", follow);
});
// A shared view has no list, and asks for none. On the page of a session, the session is asked for first.
let listed = false;
hello.subscribe((said) => {
  if (said === undefined || said.session !== undefined || listed) return;
  listed = true;
  if (place.value.page === "session") setTimeout(() => sessions.open(), AFTER_SESSION);
  else sessions.open();
});
const root = document.querySelector("#page");
if (root !== null) render(<App />, root);
