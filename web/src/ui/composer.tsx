// The prompt box: text with the agent's commands, pasted images, options of the session, sending and cancelling. The draft is kept
// through reloads and lost connections.

import { useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { text, type JsonObject } from "../core/json.ts";
import { load, save } from "../core/storage.ts";
import type { SessionOption, SlashCommand } from "../core/standing.ts";
import { visible } from "../core/visible.ts";
import { cancel, prompt, setOption } from "../state/acting.ts";
import { hello, link } from "../state/link.ts";
import { say } from "../state/notices.ts";
import type { SessionStore } from "../state/session.ts";
import { Icon } from "./icons.tsx";
import { IconButton } from "./parts.tsx";

const LARGEST_IMAGE = 10 * 1024 * 1024;

/** Images that were pasted and not sent, by session. They are too large for the storage of the browser: a reload loses them. */
const pasted = new Map<string, JsonObject[]>();

export function Composer({ store }: { store: SessionStore }) {
  const [draft, setDraft] = useState(() => load("session", `draft.${store.id}`) ?? "");
  const [images, setImages] = useState<JsonObject[]>(() => pasted.get(store.id) ?? []);
  const [chosen, setChosen] = useState(0);
  const box = useRef<HTMLTextAreaElement>(null);
  const standing = store.standing.value;
  const busy = standing.state === "running" || standing.state === "waiting";
  const online = link.value.phase === "ready";
  const commands = suggestions(draft, standing.commands);

  useEffect(() => save("session", `draft.${store.id}`, draft === "" ? undefined : draft), [draft]);
  useEffect(() => void pasted.set(store.id, images), [images]);
  useLayoutEffect(() => fit(box.current), [draft]);
  useSignalEffect(() => {
    const back = store.returned.value;
    if (back === undefined) return;
    store.returned.value = undefined;
    setDraft((now) => (now === "" ? back.text : `${back.text}\n${now}`));
    setImages((now) => [...back.images, ...now]);
    say("warning", "The prompt was not received. It is in the box again.");
  });

  const send = () => {
    if (!online || (draft.trim() === "" && images.length === 0)) return;
    void prompt(store, draft.trim(), images);
    setDraft("");
    setImages([]);
    store.atEnd = true;
    void store.toEnd();
  };
  const complete = (command: SlashCommand) => {
    setDraft(`/${command.name} `);
    box.current?.focus();
  };
  const key = (event: KeyboardEvent) => {
    if (commands.length > 0 && ["ArrowDown", "ArrowUp", "Tab"].includes(event.key)) {
      event.preventDefault();
      const picked = commands[chosen];
      if (event.key === "Tab" && picked !== undefined) return complete(picked);
      setChosen((chosen + (event.key === "ArrowDown" ? 1 : commands.length - 1)) % commands.length);
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      const picked = commands[chosen];
      if (picked !== undefined && draft !== `/${picked.name}`) complete(picked);
      else send();
    } else if (event.key === "Escape") {
      box.current?.blur();
    }
  };
  const paste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
    if (files.length === 0) return;
    event.preventDefault();
    if (!hello.value?.images) return say("warning", "This agent takes no images.");
    for (const file of files) {
      if (file.size > LARGEST_IMAGE) say("warning", "An image is larger than 10 MB and was left out.");
      else void readImage(file).then((image) => setImages((before) => [...before, image]));
    }
  };

  return (
    <form class="composer" onSubmit={(event) => (event.preventDefault(), send())}>
      {commands.length > 0 && (
        <ul class="commands" role="listbox" id="commands" aria-label="Commands of the agent">
          {commands.map((command, index) => (
            <li key={command.name} id={`command-${index}`} role="option" aria-selected={index === chosen} onPointerDown={(event) => (event.preventDefault(), complete(command))}>
              <span class="command-name">/{visible(command.name)}</span>
              <span class="muted">{visible(command.description)}</span>
            </li>
          ))}
        </ul>
      )}
      {images.length > 0 && (
        <div class="pasted">
          {images.map((image, index) => (
            <figure key={index}>
              <img src={`data:${text(image["mimeType"])};base64,${text(image["data"])}`} alt={`Pasted image ${index + 1}`} />
              <IconButton icon="cross" label="Remove the image" onClick={() => setImages(images.filter((other) => other !== image))} />
            </figure>
          ))}
        </div>
      )}
      <textarea
        ref={box}
        id="prompt"
        aria-label="Prompt"
        rows={1}
        dir="auto"
        placeholder={busy ? "Send a prompt for the next turn…" : "Send a prompt…"}
        aria-haspopup="listbox"
        aria-controls={commands.length > 0 ? "commands" : undefined}
        aria-autocomplete="list"
        aria-activedescendant={commands.length > 0 ? `command-${chosen}` : undefined}
        value={draft}
        onInput={(event) => (setDraft(event.currentTarget.value), setChosen(0))}
        onKeyDown={key}
        onPaste={paste}
      />
      <div class="composer-row">
        <Options store={store} />
        <span class="spring" />
        {busy && (
          <button type="button" class="button" onClick={() => void cancel(store)}>
            <Icon name="stop" size={14} /> <span>Cancel</span>
          </button>
        )}
        <button type="submit" class="button primary" disabled={!online || (draft.trim() === "" && images.length === 0)} title={online ? undefined : "Not connected. The text is kept."}>
          <Icon name="send" size={14} /> <span>Send</span>
        </button>
      </div>
    </form>
  );
}

function Options({ store }: { store: SessionStore }) {
  const options = store.standing.value.options;
  return (
    <div class="options">
      {options.map((option) => <OptionField key={option.id} option={option} set={(value) => void setOption(store, option.id, value)} />)}
    </div>
  );
}

function OptionField({ option, set }: { option: SessionOption; set: (value: string | boolean) => void }) {
  if (typeof option.value === "boolean") {
    return (
      <label class="option-check" title={option.description && visible(option.description)}>
        <input type="checkbox" checked={option.value} onChange={(event) => set(event.currentTarget.checked)} /> {visible(option.name)}
      </label>
    );
  }
  const groups = [...new Set(option.choices.map((choice) => choice.group))];
  const known = option.choices.some((choice) => choice.value === option.value);
  const of = (group: string | undefined) =>
    option.choices.filter((choice) => choice.group === group).map((choice) => (
      <option key={choice.value} value={choice.value} title={choice.description && visible(choice.description)}>{visible(choice.name)}</option>
    ));
  return (
    <select class="option" aria-label={visible(option.name)} title={visible(option.name)} value={option.value} onChange={(event) => set(event.currentTarget.value)}>
      {!known && <option value={option.value}>{visible(option.value)}</option>}
      {groups.map((group) => (group === undefined ? of(undefined) : <optgroup key={group} label={visible(group)}>{of(group)}</optgroup>))}
    </select>
  );
}

function suggestions(draft: string, commands: readonly SlashCommand[]): SlashCommand[] {
  const typed = /^\/(\S*)$/.exec(draft)?.[1];
  if (typed === undefined) return [];
  return commands.filter((command) => command.name.toLowerCase().startsWith(typed.toLowerCase())).slice(0, 8);
}

function fit(box: HTMLTextAreaElement | null): void {
  if (box === null) return;
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight, window.innerHeight * 0.4)}px`;
}

async function readImage(file: File): Promise<JsonObject> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 32_768) binary += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return { type: "image", mimeType: file.type, data: btoa(binary) };
}
