// A list of rows of one height, of which only those in sight are in the document.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

const spare = 8; // rows beyond what is in sight

/**
 * @param {{items: any[], height: number, row: (item: any, i: number) => any, onEnd?: () => void, label: string, more?: any, selected?: number}} p
 */
export function Virtual({ items, height, row, onEnd, label, selected = -1 }) {
  const box = useRef(null);
  const [seen, see] = useState({ top: 0, size: 800 });
  useLayoutEffect(() => {
    const e = box.current;
    const look = () => see({ top: e.scrollTop, size: e.clientHeight });
    look();
    const watch = new ResizeObserver(look);
    watch.observe(e);
    return () => watch.disconnect();
  }, []);
  const from = Math.max(0, Math.floor(seen.top / height) - spare);
  const to = Math.min(items.length, Math.ceil((seen.top + seen.size) / height) + spare);
  useEffect(() => {
    if (onEnd && to >= items.length - spare) onEnd();
  }, [to, items.length, onEnd]);
  useEffect(() => {
    const e = box.current;
    if (selected < 0) return;
    if (selected * height < e.scrollTop) e.scrollTop = selected * height;
    else if ((selected + 1) * height > e.scrollTop + e.clientHeight) e.scrollTop = (selected + 1) * height - e.clientHeight;
  }, [selected]);
  return html`<div class="virtual" ref=${box} onScroll=${(e) => see({ top: e.target.scrollTop, size: e.target.clientHeight })}>
    <ul aria-label=${label} style=${{ height: items.length * height + "px" }}>
      ${items.slice(from, to).map((item, i) => html`<li key=${item.id} style=${{ transform: `translateY(${(from + i) * height}px)`, height: height + "px" }} aria-setsize=${items.length} aria-posinset=${from + i + 1}>${row(item, from + i)}</li>`)}
    </ul>
  </div>`;
}
