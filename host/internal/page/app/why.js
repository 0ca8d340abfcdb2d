// Why a turn or run ended as it did, in plain words. Each code of the reference has a sentence.

/** @type {Record<string, string>} */
export const sentences = {
  ERR_ENV_MARKERS_INVALID: "The reply is not a well-formed envelope: a marker line is wrong, or its bytes are not text.",
  ERR_ENV_SECTION_MISSING: "The reply lacks a section that every envelope must have.",
  ERR_ENV_ORDER: "The sections of the reply are not in their order.",
  ERR_ENV_SECTION_DUP: "The reply has a section twice.",
  ERR_ENV_SIZE: "The reply, or a part of it, is longer than the agent allows.",
  ERR_USERDATA_SCHEMA: "The message is not the object that this agent takes.",
  ERR_TOKEN_PARSE: "The reply has a control token that cannot be read.",
  ERR_TOKEN_VERIFY: "The reply has a control token that this host did not sign.",
  ERR_TOKEN_SCOPE: "The control token belongs to another session or turn.",
  ERR_TOKEN_TTL: "The control token has expired.",
  ERR_TOKEN_REPLAY: "The control token was used before.",
  ERR_TOKEN_MISSING: "The model ended its turn without saying whether it goes on.",
  ERR_MAGIC_TOOL_INTERNAL: "The host could not sign a control token.",
  ERR_TIMEOUT: "The time that the agent allows ran out.",
  ERR_QUOTA: "A limit of the agent was used up.",
  ERR_NO_PROGRESS: "The agent repeated itself without getting further.",
  ERR_ACTIONS_PARSE: "The program in the reply does not parse.",
  ERR_ACTIONS_RUNTIME: "The program in the reply failed.",
  ERR_CRASH: "A part of the host failed under the turn.",
  ERR_CANCELLED: "It was cancelled.",
  ERR_MAX_TURNS: "The run used all the turns that it may have.",
  ERR_BUSY: "Another run was in flight.",
  ERR_MODEL: "The model, or the way to it, failed after all retries.",
  ERR_JOURNAL: "The journal could not be written or read.",
  ERR_FENCED: "Another host has taken this session over.",
  ERR_LOOP: "The same call kept giving the same result.",
  ERR_APPROVAL: "The answer to a question came too late, or for something else.",
  ERR_CONFIG: "A setting of the agent cannot be used.",
  ERR_NOT_FOUND: "Something that was named does not exist.",
  ERR_INVALID: "A value is malformed.",
  ERR_CONFLICT: "It does not fit what is there.",
  ERR_DIALECT: "The reply breaks a rule of its dialect.",
  ERR_OUTPUT: "The final answer does not fit the schema that the agent asks for.",
  ERR_DENIED: "The policy of the agent does not allow it.",
  ERR_AUDIT: "The audit log could not be written, so it was not done.",
};

const decisions = {
  DONE: "Done: the agent said that it has finished.",
  CONTINUE: "Goes on: the agent asked for another turn.",
  ABORT: "Given up: the agent itself ended the run without an answer.",
  HALT: "Stopped by the host.",
};

/**
 * What a decision means.
 * @param {{decision?: string, code?: string, detail?: string}} at
 * @returns {string}
 */
export function why({ decision = "", code = "", detail = "" }) {
  const what = (decision === "HALT" && sentences[code]) || decisions[decision] || "";
  return [what, detail && `(${detail})`].filter(Boolean).join(" ");
}

/** Why an action ended as it did. */
export function ended({ state, reason = "", error_code: code }) {
  if (state === "ok") return "";
  const what = { failed: "Failed", skipped: "Skipped", cancelled: "Cancelled", unknown: "Its end is not known" }[state] ?? state;
  const [kind, of] = reason.split(":");
  const because =
    {
      branch_not_taken: "its branch was not taken",
      dep_failed: `what it needs, ${of}, failed`,
      child_failed: `${of} in it failed`,
      denied: "a person or rule denied it",
      timeout: "its time ran out",
      crash: "the host stopped under it",
    }[kind] ?? reason;
  return [what, because, code && `code ${code}`].filter(Boolean).join(": ");
}
