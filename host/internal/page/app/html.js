// Preact with htm, as all parts of the console use them.
import htm from "./htm.js";
import { h, render, Fragment } from "./preact.js";

export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./hooks.js";
export { Component } from "./preact.js";
export { Fragment, h, render };
export const html = htm.bind(h);

/** Class names: those that are said, joined. */
export const cls = (...names) => names.filter(Boolean).join(" ");
