// Terminal output as lines of coloured runs. Colours are understood, carriage returns and backspaces overwrite, every other control
// sequence is dropped, so that nothing of it reaches the page but text and the names of classes. Pure.

export interface Run {
  text: string;
  /** Names of classes from a fixed set. */
  classes: string;
}

interface Style {
  fg: number | undefined;
  bg: number | undefined;
  bold: boolean;
  faint: boolean;
  italic: boolean;
  underline: boolean;
}

const PLAIN: Style = { fg: undefined, bg: undefined, bold: false, faint: false, italic: false, underline: false };
/** Longer lines are cut: a line of a megabyte has no reader. */
const LONGEST_LINE = 4_000;

/** Takes output apart. Only the last lines are returned if there are more than the limit. */
export function terminalLines(output: string, limit: number): { lines: Run[][]; skipped: number } {
  const raw = output.split("\n");
  if (raw.length > 1 && raw.at(-1) === "") raw.pop();
  const skipped = Math.max(0, raw.length - limit);
  let style = PLAIN;
  const lines: Run[][] = [];
  for (const line of raw.slice(skipped)) {
    const read = readLine(line, style);
    style = read.style;
    lines.push(read.runs);
  }
  return { lines, skipped };
}

interface Cell {
  character: string;
  style: Style;
}

const SEQUENCE =
  // CSI; OSC, DCS, PM, APC and SOS up to their end; escapes of two and three characters.
  /\x1b\[([0-?]*)[ -/]*([@-~])|[\x1b][\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)|\x1b[ -/]*[0-~]|\x9b([0-?]*)[ -/]*([@-~])/y;

function readLine(line: string, begin: Style): { runs: Run[]; style: Style } {
  const cells: Cell[] = [];
  let style = begin;
  let column = 0;
  let at = 0;
  while (at < line.length && cells.length <= LONGEST_LINE) {
    SEQUENCE.lastIndex = at;
    const sequence = SEQUENCE.exec(line);
    if (sequence) {
      const final = sequence[2] ?? sequence[4];
      const parameters = sequence[1] ?? sequence[3] ?? "";
      if (final === "m") style = styled(style, parameters);
      else if (final === "K" && (parameters === "" || parameters === "0")) cells.length = Math.min(cells.length, column);
      else if (final === "K") cells.length = 0;
      else if (final === "G") column = Math.min(LONGEST_LINE, Math.max(0, (parseInt(parameters, 10) || 1) - 1));
      at += sequence[0].length;
      continue;
    }
    const character = String.fromCodePoint(line.codePointAt(at) ?? 0);
    at += character.length;
    if (character === "\r") column = 0;
    else if (character === "\b") column = Math.max(0, column - 1);
    else if (character === "\t") column = put(cells, column, "\t", style);
    else if (!isControl(character)) column = put(cells, column, character, style);
  }
  if (cells.length > LONGEST_LINE) cells.push({ character: "…", style: PLAIN });
  return { runs: runsOf(cells), style };
}

function isControl(character: string): boolean {
  const code = character.codePointAt(0) ?? 0;
  return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

function put(cells: Cell[], column: number, character: string, style: Style): number {
  while (cells.length < column) cells.push({ character: " ", style: PLAIN });
  cells[column] = { character, style };
  return column + 1;
}

function runsOf(cells: Cell[]): Run[] {
  const runs: Run[] = [];
  let before: Style | undefined;
  for (const { character, style } of cells) {
    const last = runs.at(-1);
    if (last && style === before) last.text += character;
    else runs.push({ text: character, classes: classesOf(style) });
    before = style;
  }
  return runs;
}

function classesOf(style: Style): string {
  const names: string[] = [];
  if (style.fg !== undefined) names.push(`fg${style.fg}`);
  if (style.bg !== undefined) names.push(`bg${style.bg}`);
  if (style.bold) names.push("bold");
  if (style.faint) names.push("faint");
  if (style.italic) names.push("italic");
  if (style.underline) names.push("underline");
  return names.join(" ");
}

function styled(before: Style, parameters: string): Style {
  const numbers = parameters.split(/[;:]/).map((part) => (part === "" ? 0 : Number.parseInt(part, 10)));
  let style = { ...before };
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] ?? 0;
    if (code === 0) style = { ...PLAIN };
    else if (code === 1) style.bold = true;
    else if (code === 2) style.faint = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 22) style.bold = style.faint = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code >= 30 && code <= 37) style.fg = code - 30;
    else if (code >= 40 && code <= 47) style.bg = code - 40;
    else if (code >= 90 && code <= 97) style.fg = code - 90 + 8;
    else if (code >= 100 && code <= 107) style.bg = code - 100 + 8;
    else if (code === 39) style.fg = undefined;
    else if (code === 49) style.bg = undefined;
    else if (code === 38 || code === 48) {
      const colour = extended(numbers, at + 1);
      at = colour.next - 1;
      if (code === 38) style.fg = colour.colour;
      else style.bg = colour.colour;
    }
  }
  return style;
}

/** A colour of 256 or of 16 million, as the nearest of 16: those have contrast on both themes. */
function extended(numbers: number[], at: number): { colour: number | undefined; next: number } {
  if (numbers[at] === 5) return { colour: of256(numbers[at + 1] ?? 0), next: at + 2 };
  if (numbers[at] !== 2) return { colour: undefined, next: numbers.length };
  return { colour: nearest(numbers[at + 1] ?? 0, numbers[at + 2] ?? 0, numbers[at + 3] ?? 0), next: at + 4 };
}

function of256(index: number): number | undefined {
  if (index < 16) return index;
  if (index >= 232) return index < 238 ? 8 : index < 248 ? 7 : 15;
  const [r, g, b] = [Math.floor((index - 16) / 36), Math.floor(((index - 16) % 36) / 6), (index - 16) % 6];
  return nearest((r ?? 0) * 51, (g ?? 0) * 51, (b ?? 0) * 51);
}

function nearest(r: number, g: number, b: number): number {
  const brightest = Math.max(r, g, b);
  if (brightest < 48) return 0;
  if (brightest - Math.min(r, g, b) < 32) return brightest < 140 ? 8 : brightest < 220 ? 7 : 15;
  const bit = (value: number) => (value > brightest * 0.6 ? 1 : 0);
  return bit(r) + 2 * bit(g) + 4 * bit(b) + (brightest > 200 ? 8 : 0);
}

/** The text of output without colours and control sequences. */
export function plainOutput(output: string, limit = 5_000): string {
  return terminalLines(output, limit)
    .lines.map((runs) => runs.map((run) => run.text).join(""))
    .join("\n");
}
