// Copies of a session that go another way.
import { api, attempt } from "./host.js";
import { named } from "./nest.js";
import { go } from "./route.js";
import { freshen } from "./sessions.js";

async function copy(id, body, how) {
  const made = await attempt(async () => api.fork(id, { ...body, title: named(await api.session(id), id, body.turn, how) }));
  if (!made) return false;
  go({ id: made.id });
  await freshen();
  return true;
}

/** A copy that ends behind a turn, and waits for a message. */
export const fork = (id, turn) => copy(id, { turn, stop: true }, "Fork of");

/** A copy that begins in front of the run of a turn, with another message in its place. */
export const again = (id, turn, input) => (input.trim() ? copy(id, { turn, input }, "Edited:") : Promise.resolve(false));
