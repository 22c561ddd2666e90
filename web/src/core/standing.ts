// What holds for a session as a whole: its state, title, options, commands, usage and open plan. Pure.

import { at, fields, isObject, list, number, text, type Json, type JsonObject } from "./json.ts";

export type SessionState = "running" | "waiting" | "idle" | "unknown";

export interface Standing {
  readonly state: SessionState;
  readonly stopReason: string | undefined;
  readonly title: string | undefined;
  readonly options: readonly SessionOption[];
  readonly commands: readonly SlashCommand[];
  readonly usage: Usage | undefined;
  readonly plan: JsonObject | undefined;
}

export interface SessionOption {
  id: string;
  name: string;
  category: string | undefined;
  description: string | undefined;
  value: string | boolean;
  choices: OptionChoice[];
}

export interface OptionChoice {
  value: string;
  name: string;
  description: string | undefined;
  group: string | undefined;
}

export interface SlashCommand {
  name: string;
  description: string;
  hint: string | undefined;
}

export interface Usage {
  used: number;
  size: number;
  cost: { amount: number; currency: string } | undefined;
}

export const UNKNOWN: Standing = {
  state: "unknown",
  stopReason: undefined,
  title: undefined,
  options: [],
  commands: [],
  usage: undefined,
  plan: undefined,
};

/** The standing after an update; the same object if it changes nothing. */
export function standingAfter(standing: Standing, update: JsonObject): Standing {
  switch (update["sessionUpdate"]) {
    case "state_update":
      return { ...standing, state: stateOf(update["state"]), stopReason: text(update["stopReason"]) };
    case "session_info_update":
      return "title" in update ? { ...standing, title: text(update["title"]) } : standing;
    case "config_option_update":
      return { ...standing, options: readOptions(update["configOptions"]) };
    case "available_commands_update":
      return { ...standing, commands: list(update["availableCommands"]).flatMap(command) };
    case "usage_update":
      return { ...standing, usage: readUsage(update) };
    case "plan_update":
      return { ...standing, plan: fields(update["plan"]) };
    case "plan_removed":
      return { ...standing, plan: undefined };
    default:
      return standing;
  }
}

/** The standing after something that is no update. */
export function standingAfterEvent(standing: Standing, event: JsonObject): Standing {
  switch (event["type"]) {
    case "turn_started":
      return { ...standing, state: "running", stopReason: undefined };
    case "turn_ended":
      return { ...standing, state: "idle", stopReason: text(event["stopReason"]) };
    default:
      return standing;
  }
}

export function stateOf(value: Json | undefined): SessionState {
  if (value === "running" || value === "idle" || value === "waiting") return value;
  return value === "requires_action" ? "waiting" : "unknown";
}

export function readOptions(value: Json | undefined): SessionOption[] {
  return list(value).flatMap((entry) => {
    const option = fields(entry);
    const id = text(option["configId"]);
    const current = option["currentValue"];
    if (id === undefined || (typeof current !== "string" && typeof current !== "boolean")) return [];
    return [
      {
        id,
        name: text(option["name"]) ?? id,
        category: text(option["category"]),
        description: text(option["description"]),
        value: current,
        choices: list(option["options"]).flatMap(choices),
      },
    ];
  });
}

function choices(entry: Json): OptionChoice[] {
  const group = at(entry, "options");
  if (Array.isArray(group)) {
    const name = text(at(entry, "name"));
    return group.flatMap(choices).map((choice) => ({ ...choice, group: name }));
  }
  const choice = fields(entry);
  const value = text(choice["value"]);
  if (value === undefined) return [];
  return [{ value, name: text(choice["name"]) ?? value, description: text(choice["description"]), group: undefined }];
}

function command(entry: Json): SlashCommand[] {
  const name = text(at(entry, "name"));
  if (name === undefined) return [];
  return [{ name, description: text(at(entry, "description")) ?? "", hint: text(at(entry, "input", "hint")) }];
}

function readUsage(update: JsonObject): Usage | undefined {
  const used = number(update["used"]);
  const size = number(update["size"]);
  if (used === undefined || size === undefined) return undefined;
  const amount = number(at(update, "cost", "amount"));
  const currency = text(at(update, "cost", "currency")) ?? "USD";
  return { used, size, cost: amount === undefined ? undefined : { amount, currency } };
}

export interface PlanStep {
  content: string;
  status: string;
}

/** The steps of a plan; none if it is a text or a file. */
export function planSteps(plan: JsonObject | undefined): PlanStep[] {
  return list(plan?.["entries"])
    .filter(isObject)
    .map((step) => ({ content: text(step["content"]) ?? "", status: text(step["status"]) ?? "pending" }));
}
