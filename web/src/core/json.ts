// Reads JSON of unknown shape. Nothing that arrives is trusted to have the members or types that it should have.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [name: string]: Json | undefined;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The members of an object; none if it is something else. */
export function fields(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

export function list(value: unknown): Json[] {
  return Array.isArray(value) ? (value as Json[]) : [];
}

export function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function number(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

/** The value at a path of member names. */
export function at(value: unknown, ...path: string[]): Json | undefined {
  let here: unknown = value;
  for (const name of path) here = fields(here)[name];
  return here as Json | undefined;
}

/** Indented JSON of a value, cut to a length. */
export function pretty(value: unknown, longest = 20_000): string {
  const whole = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  return whole.length > longest ? `${whole.slice(0, longest)}\n… (${whole.length - longest} more characters)` : whole;
}
