// What a person decides about is shown with nothing hidden in it: the same rule as that of
// the package internal/visible, which a test holds this to.
const maxMarks = 4; // that combine with one character
const maxSpaces = 40; // behind each other
const ink = /[\p{L}\p{M}\p{N}\p{P}\p{S} \n\t]/u;
const inkless = /[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u{16fe4}\u{1d159}\p{Variation_Selector}]/u;
const mark = /\p{M}/u;

/** A text in which nothing hides: an escape, such as \u{200b}, stands for what shows nothing or not what it is. */
export function plainly(text) {
  let marks = 0;
  let spaces = 0;
  let out = "";
  for (const c of text) {
    marks = mark.test(c) ? marks + 1 : 0;
    spaces = c === " " ? spaces + 1 : 0;
    const shown = ink.test(c) && !inkless.test(c) && marks <= maxMarks && spaces <= maxSpaces;
    out += shown ? c : `\\u{${c.codePointAt(0).toString(16)}}`;
  }
  return out;
}
