// What changes something: it is not offered by a host that only shows a journal.
import { cell, useCell } from "./cell.js";

/** Whether the host only shows its journal. */
export const rests = cell(false);

/** Its children, where the host does what is asked. */
export const Acts = ({ children }) => (useCell(rests) ? null : children);
