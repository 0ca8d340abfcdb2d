// A cell holds a value that several parts of the console show.
import { useLayoutEffect, useState } from "./html.js";

/**
 * @template T
 * @param {T} value
 * @returns {{get: () => T, set: (v: T) => void, watch: (f: () => void) => () => void}}
 */
export function cell(value) {
  const watchers = new Set();
  return {
    get: () => value,
    set(v) {
      if (Object.is(v, value)) return;
      value = v;
      for (const f of [...watchers]) f();
    },
    watch(f) {
      watchers.add(f);
      return () => watchers.delete(f);
    },
  };
}

/** The value of a cell, and a render when it changes. */
export function useCell(c) {
  const [, turn] = useState(0);
  const value = c.get();
  useLayoutEffect(() => {
    if (!Object.is(c.get(), value)) turn((n) => n + 1); // it changed between the render and here
    return c.watch(() => turn((n) => n + 1));
  }, [c]);
  return value;
}
