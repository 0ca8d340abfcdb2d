// How sessions belong together: those that work for another one, and copies. Pure.

/** Sessions in the order of the list, but those that work for another one behind that one, if it is there. */
export function nested(items) {
  const there = new Set(items.map((s) => s.id));
  const under = new Map();
  for (const s of items) if (s.parent && s.parent !== s.id && there.has(s.parent)) under.set(s.parent, [...(under.get(s.parent) ?? []), s]);
  if (!under.size) return items;
  const out = [];
  const put = (s, depth) => {
    if (!there.delete(s.id)) return;
    out.push(depth ? { ...s, depth } : s);
    for (const c of under.get(s.id) ?? []) put(c, depth + 1);
  };
  for (const s of items) if (!s.parent || s.parent === s.id || !items.some((p) => p.id === s.parent)) put(s, 0);
  for (const s of items) put(s, 0); // a ring of parents
  return out;
}

/** The name of a copy, at most 200 bytes. */
export function named(view, id, turn, how) {
  const of = (view?.title || id).replace(/^(Fork of |Edited: )(.*?)( at turn \d+)?$/, "$2");
  return [...`${how} ${of}`].slice(0, 45).join("") + ` at turn ${turn}`;
}
