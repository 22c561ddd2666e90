// Questions of agents: permission requests and forms. A full client answers the request of the server; an observer sees the question
// only. The first answer of all clients counts.

import { computed, signal } from "@preact/signals";
import { fields, isObject, list, text, type Json, type JsonObject } from "../core/json.ts";
import type { IncomingRequest } from "../core/rpc.ts";
import { answerQuestions, onNotified, onReady } from "./link.ts";
import { announce, say } from "./notices.ts";

export interface Question {
  key: string;
  session: string;
  kind: "permission" | "elicitation";
  params: JsonObject;
  /** What the server asked with; nothing for an observer. */
  request: IncomingRequest | undefined;
}

export interface Choice {
  id: string;
  name: string;
  kind: string;
}

export const questions = signal<readonly Question[]>([]);
export const questionCount = computed(() => questions.value.length);

/** The questions that were answered here, in case another answer was first. */
const answered = new Map<string | number, { at: number; title: string }>();

export function questionsOf(session: string): Question[] {
  return questions.value.filter((question) => question.session === session);
}

export function choicesOf(question: Question): Choice[] {
  return list(question.params["options"])
    .filter(isObject)
    .flatMap((option) => {
      const id = text(option["optionId"]);
      return id === undefined ? [] : [{ id, name: text(option["name"]) ?? id, kind: text(option["kind"]) ?? "" }];
    });
}

export function titleOf(question: Question): string {
  const call = fields(fields(question.params["subject"])["toolCall"]);
  return text(question.params["title"]) ?? text(call["title"]) ?? text(question.params["message"]) ?? "The agent asks";
}

export function choose(question: Question, choice: Choice): void {
  settle(question, { outcome: { outcome: "selected", optionId: choice.id } });
}

export function submit(question: Question, content: JsonObject): void {
  settle(question, { action: "accept", content });
}

export function decline(question: Question): void {
  settle(question, { action: "decline" });
}

function settle(question: Question, answer: Json): void {
  if (question.request === undefined) return;
  answered.set(question.request.id, { at: Date.now(), title: titleOf(question) });
  if (answered.size > 50) answered.delete([...answered.keys()][0] ?? "");
  question.request.answer(answer);
  remove(question.key);
}

function remove(key: string): void {
  questions.value = questions.value.filter((question) => question.key !== key);
}

function add(question: Question): void {
  questions.value = [...questions.value.filter((known) => known.key !== question.key), question];
  announce(`The agent asks: ${titleOf(question)}`);
}

export function startQuestions(): void {
  answerQuestions({ asked, withdrawn });
  // Requests belong to their connection; the server asks again on the next one.
  onReady(() => {
    questions.value = [];
    answered.clear();
  });
  onNotified((method, params) => {
    const session = text(params["sessionId"]);
    const id = text(params["questionId"]);
    if (session === undefined || id === undefined) return;
    if (method === "_rethread/question_closed") remove(`seen:${id}`);
    if (method !== "_rethread/question") return;
    const kind = params["kind"] === "elicitation" ? "elicitation" : "permission";
    add({ key: `seen:${id}`, session, kind, params: fields(params["params"]), request: undefined });
  });
}

function asked(request: IncomingRequest): void {
  const kinds: Record<string, Question["kind"]> = {
    "session/request_permission": "permission",
    "elicitation/create": "elicitation",
  };
  const kind = kinds[request.method];
  if (kind === undefined) return request.refuse(-32601, `the page does not know ${request.method}`);
  add({ key: `asked:${request.id}`, session: text(request.params["sessionId"]) ?? "", kind, params: request.params, request });
}

function withdrawn(id: string | number): void {
  const open = questions.value.find((question) => question.key === `asked:${id}`);
  if (open !== undefined) {
    open.request?.refuse(-32800, "cancelled");
    remove(open.key);
    say("info", `“${titleOf(open)}” was answered by another client, or withdrawn.`);
  }
  const mine = answered.get(id);
  if (mine === undefined) return;
  answered.delete(id);
  if (Date.now() - mine.at < 30_000) say("warning", `Another client answered “${mine.title}” first. Your answer was not used.`);
}
