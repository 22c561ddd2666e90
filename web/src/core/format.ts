// Times, numbers and paths for people.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago a time was: `now`, `5m`, `3h`, `2d`, else the date. */
export function ago(time: string | undefined, now: number): string {
  const at = time === undefined ? NaN : Date.parse(time);
  if (Number.isNaN(at)) return "";
  const past = now - at;
  if (past < MINUTE) return "now";
  if (past < HOUR) return `${Math.floor(past / MINUTE)}m`;
  if (past < DAY) return `${Math.floor(past / HOUR)}h`;
  if (past < 7 * DAY) return `${Math.floor(past / DAY)}d`;
  const date = new Date(at);
  const year = date.getFullYear() === new Date(now).getFullYear() ? undefined : ("numeric" as const);
  return date.toLocaleDateString(undefined, { day: "numeric", month: "short", ...(year && { year }) });
}

/** The whole date and time. */
export function moment(time: string | undefined): string {
  const at = time === undefined ? NaN : Date.parse(time);
  return Number.isNaN(at) ? "" : new Date(at).toLocaleString();
}

/** The time of day; with the date, if that is another day than now. */
export function clock(time: string | undefined, now = Date.now()): string {
  const at = time === undefined ? NaN : Date.parse(time);
  if (Number.isNaN(at)) return "";
  const [date, today] = [new Date(at), new Date(now)];
  const hour = { hour: "2-digit", minute: "2-digit" } as const;
  if (date.toDateString() === today.toDateString()) return date.toLocaleTimeString(undefined, hour);
  const year = date.getFullYear() === today.getFullYear() ? undefined : ("numeric" as const);
  return date.toLocaleString(undefined, { ...hour, day: "numeric", month: "short", ...(year && { year }) });
}

/** A path as it is called inside a project: without the directory of the project. */
export function pathInside(path: string, cwd: string | undefined): string {
  return cwd !== undefined && cwd.length > 1 && path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path;
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  if (size < 1024 * 1024) return `${(size / 1024).toFixed(0)} KB`;
  return `${(size / 1024 / 1024).toFixed(1)} MB`;
}

/** A number of things in few characters: `950`, `12.3k`, `4.5M`. */
export function count(value: number): string {
  if (value < 1_000) return String(Math.round(value));
  if (value < 1_000_000) return `${trim(value / 1_000)}k`;
  return `${trim(value / 1_000_000)}M`;
}

function trim(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}

export function money(amount: number, currency: string): string {
  try {
    const digits = amount !== 0 && Math.abs(amount) < 0.1 ? 4 : 2;
    return amount.toLocaleString(undefined, { style: "currency", currency, maximumFractionDigits: digits });
  } catch {
    return `${amount.toFixed(2)} ${currency}`;
  }
}

/** The last part of a path: how people call a project. */
export function folderName(path: string): string {
  return path.split(/[\\/]/).filter(Boolean).at(-1) ?? path;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}
