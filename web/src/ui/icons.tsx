// Icons, drawn here so that nothing is loaded. All are decoration: what they stand for is said in words beside them.

const PATHS = {
  search: "M7 12.5a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11Zm4-1.500 3.500 3.500",
  back: "M9.500 3 4.500 8l5 5",
  more: "M3.500 8h.01M8 8h.01M12.500 8h.01",
  check: "m3 8.500 3.500 3.500L13 4.500",
  cross: "m4 4 8 8m0-8-8 8",
  chevron: "m6 3.500 4.500 4.500L6 12.500",
  down: "M8 3v10m-4-4 4 4 4-4",
  link: "M6.500 9.500a3 3 0 0 0 4.200 0l2-2a3 3 0 0 0-4.200-4.200l-.8.8m1.800 2.400a3 3 0 0 0-4.200 0l-2 2a3 3 0 0 0 4.200 4.200l.8-.8",
  copy: "M5.500 5.500v-3h8v8h-3m-8-5h8v8h-8v-8Z",
  fork: "M4.500 5v6m0-6a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3Zm0 6a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3Zm7-6a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3Zm0 0c0 3-7 2-7 6",
  edit: "m10.500 2.500 3 3-8 8H2.500v-3l8-8Z",
  read: "M2.500 3.500h4L8 5l1.500-1.500h4v9h-4L8 14l-1.500-1.500h-4v-9ZM8 5v9",
  execute: "m3 4 4 4-4 4m5.500.500h5",
  fetch: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM2 8h12M8 2c2 2 2 10 0 12C6 12 6 4 8 2Z",
  think: "M5.500 11.500c-2-1-3-2.600-3-4.500a5.500 5.500 0 0 1 11 0c0 1.900-1 3.500-3 4.500v1h-5v-1Zm1 3h3",
  delete: "M3 4.500h10m-8.500 0 .500 9h6l.500-9M6.500 4.500v-2h3v2",
  move: "M2.500 8h11m-4-4 4 4-4 4",
  tool: "M13.500 5.500a3.500 3.500 0 0 1-4.600 3.300l-4.400 4.700-2-2 4.700-4.400A3.500 3.500 0 0 1 10.500 2.500L8.700 4.300l.300 2.700 2.700.300 1.800-1.800Z",
  send: "M8 13.500v-11m-4.500 4.500L8 2.500l4.500 4.500",
  stop: "M4.500 4.500h7v7h-7z",
  image: "M2.500 3h11v10h-11zm0 8 3.500-3.500 3 3 2-2 2.500 2.500M10 6.500h.01",
  people: "M6 8a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5Zm-4 5.500c0-2.500 1.500-4 4-4s4 1.500 4 4m.500-10.500a2.500 2.500 0 0 1 0 5m1.500 2c1.300.500 2 1.700 2 3.500",
  outline: "M6 4h8M6 8h8M6 12h8M2.500 4h.01M2.500 8h.01M2.500 12h.01",
  chart: "M2.500 13.500h11M4.500 11V8M8 11V3.500M11.500 11V6",
  theme: "M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500Z",
  help: "M6 6a2 2 0 1 1 3 1.700c-.700.500-1 .800-1 1.800m0 2.500h.01M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Z",
  archive: "M2.500 3h11v3h-11zm1 3v7h9V6M6.500 8.500h3",
  download: "M8 2.500v8m-3.500-3.500L8 10.500 11.500 7M3 13.500h10",
  plus: "M8 3v10M3 8h10",
  folder: "M2 4h4l1.500 1.500H14v7.500H2V4Z",
  question: "M8 2 14 13H2L8 2Zm0 4.500v3m0 2h.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class={`icon icon-${name}`} width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.400" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
