// A question of the agent: the whole command or diff, and the answers that the agent offers; or a form.

import { useState } from "preact/hooks";
import { apply, type Item } from "../core/item.ts";
import { at, fields, isObject, list, pretty, text, type Json, type JsonObject } from "../core/json.ts";
import { visible, visibleLines } from "../core/visible.ts";
import { hello } from "../state/link.ts";
import { choicesOf, choose, decline, submit, titleOf, type Choice, type Question } from "../state/questions.ts";
import { ContentBlock, PlainText } from "./content.tsx";
import { Icon } from "./icons.tsx";
import { Link } from "./markdown.tsx";
import { Diff, diffFiles } from "./tool.tsx";

export function QuestionCard({ question, call }: { question: Question; call: (id: string) => Item | undefined }) {
  return (
    <section class="question" aria-label="Question of the agent">
      <header>
        <Icon name="question" />
        <h2>{visible(titleOf(question))}</h2>
      </header>
      {question.kind === "permission" ? <Permission question={question} call={call} /> : <Elicitation question={question} />}
    </section>
  );
}

function Permission({ question, call }: { question: Question; call: (id: string) => Item | undefined }) {
  const description = text(question.params["description"]);
  const mayAnswer = question.request !== undefined;
  return (
    <>
      {description !== undefined && <PlainText text={description.slice(0, 20_000)} />}
      <Subject subject={fields(question.params["subject"])} call={call} />
      <div class="choices">
        {choicesOf(question).map((choice) => (
          <button key={choice.id} type="button" class={`choice ${styleOf(choice)}`} disabled={!mayAnswer} onClick={() => choose(question, choice)}>
            {visible(choice.name)}
          </button>
        ))}
        {!mayAnswer && <span class="muted">{hello.value?.role === "observer" ? "You are looking on; somebody else answers." : "It is asked of another client."}</span>}
      </div>
    </>
  );
}

function styleOf(choice: Choice): string {
  if (choice.kind === "allow_once") return "primary";
  return choice.kind.startsWith("reject") ? "reject" : "";
}

/** What permission is asked for: never as Markdown, which could hide a part of it. */
function Subject({ subject, call }: { subject: JsonObject; call: (id: string) => Item | undefined }) {
  if (subject["type"] === "command") {
    return <Command command={text(subject["command"]) ?? ""} cwd={text(subject["cwd"])} />;
  }
  if (subject["type"] !== "tool_call") {
    return Object.keys(subject).length === 0 ? null : <pre class="question-text">{visibleLines(pretty(subject))}</pre>;
  }
  const asked = fields(subject["toolCall"]);
  // The question may say only what is new; the rest is in the tool call that was shown before.
  const known = call(text(asked["toolCallId"]) ?? "");
  const place = { seq: 0, last: 0, turn: 0, time: undefined, session: undefined, cut: undefined };
  const item = apply(known, { ...asked, sessionUpdate: "tool_call_update" }, place);
  if (item === undefined) return null;
  const input = item.members["rawInput"];
  const command = text(fields(input)["command"]) ?? commandOf(fields(input)["command"]);
  const blocks = item.parts.flatMap((part) => (part.type === "block" ? [part.block] : []));
  const diffs = blocks.filter((block) => block["type"] === "diff").flatMap(diffFiles);
  return (
    <div class="question-subject">
      {command !== undefined && <Command command={command} cwd={text(fields(input)["cwd"])} />}
      {diffs.map((file, index) => <Diff key={index} file={file} cwd={undefined} />)}
      {blocks.filter((block) => block["type"] === "content").map((block, index) => <ContentBlock key={index} block={fields(block["content"])} plain />)}
      {command === undefined && diffs.length === 0 && input != null && <pre class="question-text" tabIndex={0}>{visibleLines(pretty(input))}</pre>}
    </div>
  );
}

function commandOf(value: Json | undefined): string | undefined {
  return Array.isArray(value) ? value.map((word) => text(word) ?? "").join(" ") : undefined;
}

function Command({ command, cwd }: { command: string; cwd: string | undefined }) {
  return (
    <>
      <pre class="question-text" tabIndex={0} dir="ltr">{visibleLines(command)}</pre>
      {cwd !== undefined && <p class="muted">in {visible(cwd)}</p>}
    </>
  );
}

interface Field {
  name: string;
  schema: JsonObject;
  required: boolean;
}

function Elicitation({ question }: { question: Question }) {
  const [values, setValues] = useState<JsonObject>({});
  const mayAnswer = question.request !== undefined;
  const { params } = question;
  if (params["mode"] === "url") {
    const url = text(params["url"]) ?? "";
    return (
      <>
        <p><Link href={url} label={url} /></p>
        <div class="choices">
          <button type="button" class="choice primary" disabled={!mayAnswer} onClick={() => submit(question, {})}>Done</button>
          <button type="button" class="choice reject" disabled={!mayAnswer} onClick={() => decline(question)}>Decline</button>
        </div>
      </>
    );
  }
  const schema = fields(params["requestedSchema"]);
  const required = list(schema["required"]);
  const all: Field[] = Object.entries(fields(schema["properties"])).map(([name, own]) => ({ name, schema: fields(own), required: required.includes(name) }));
  const send = (event: Event) => {
    event.preventDefault();
    const defaults = Object.fromEntries(all.flatMap(({ name, schema: own }) => (own["default"] === undefined ? [] : [[name, own["default"]]])));
    submit(question, { ...defaults, ...values });
  };
  return (
    <form onSubmit={send}>
      {all.map((field) => (
        <FormField key={field.name} field={field} disabled={!mayAnswer} set={(value) => setValues((before) => ({ ...before, [field.name]: value }))} />
      ))}
      <div class="choices">
        <button type="submit" class="choice primary" disabled={!mayAnswer}>Send</button>
        <button type="button" class="choice reject" disabled={!mayAnswer} onClick={() => decline(question)}>Decline</button>
      </div>
    </form>
  );
}

function FormField({ field, set, disabled }: { field: Field; set: (value: Json | undefined) => void; disabled: boolean }) {
  const { schema } = field;
  const name = visible(text(schema["title"]) ?? field.name);
  const about = text(schema["description"]);
  const choices = optionsOf(schema);
  const kind = text(schema["type"]);
  return (
    <label class={kind === "boolean" ? "field field-check" : "field"}>
      <span class="field-name">{name}{field.required && <span class="muted"> (required)</span>}</span>
      {about !== undefined && <span class="muted">{visible(about)}</span>}
      {choices.length > 0 ? (
        <select required={field.required} disabled={disabled} multiple={kind === "array"} onChange={(event) => set(kind === "array" ? [...event.currentTarget.selectedOptions].map((one) => one.value) : event.currentTarget.value)}>
          {kind !== "array" && <option value="">Choose…</option>}
          {choices.map((choice) => <option key={choice.value} value={choice.value}>{visible(choice.name)}</option>)}
        </select>
      ) : kind === "boolean" ? (
        <input type="checkbox" disabled={disabled} defaultChecked={schema["default"] === true} onChange={(event) => set(event.currentTarget.checked)} />
      ) : kind === "number" || kind === "integer" ? (
        <input type="number" required={field.required} disabled={disabled} step={kind === "integer" ? 1 : "any"} onInput={(event) => set(event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)} />
      ) : (
        <input type="text" required={field.required} disabled={disabled} defaultValue={text(schema["default"]) ?? ""} onInput={(event) => set(event.currentTarget.value)} />
      )}
    </label>
  );
}

function optionsOf(schema: JsonObject): { value: string; name: string }[] {
  const own = schema["type"] === "array" ? fields(schema["items"]) : schema;
  const titled = [...list(own["oneOf"]), ...list(own["anyOf"])].filter(isObject);
  if (titled.length > 0) {
    return titled.flatMap((one) => {
      const value = text(at(one, "const"));
      return value === undefined ? [] : [{ value, name: text(one["title"]) ?? value }];
    });
  }
  return list(own["enum"]).flatMap((value) => (typeof value === "string" ? [{ value, name: value }] : []));
}
