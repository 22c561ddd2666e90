// Puts values together that have something in common.

/** The values by a key, in the order in which the keys first occur. */
export function grouped<T>(values: readonly T[], key: (value: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const value of values) {
    const known = groups.get(key(value));
    if (known === undefined) groups.set(key(value), [value]);
    else known.push(value);
  }
  return groups;
}
