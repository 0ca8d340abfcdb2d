// What an event of a session says, in a line.
const joined = (...parts) => parts.filter(Boolean).join(" ");

/** How an event is shown: a class, and a text. */
export function words({ type, text, body = {} }) {
  switch (type) {
    case "user":
      return ["user", text ?? body.userdata ?? ""];
    case "respond":
    case "emit":
      return ["said", text];
    case "think":
    case "text":
      return ["other", text];
    case "call":
      return ["said", joined(body.id, body.name, body.args, body.compensates && `(undoes ${body.compensates})`, body.block && `(in ${body.block})`)];
    case "result":
      return ["said", joined(body.id, body.state, body.reason, body.result)];
    case "block.begin":
      return ["said", joined(body.id, body.kind, body.test, body.in, body.block && `(in ${body.block})`)];
    case "block.decided":
      return ["other", joined(body.id, body.branch && `takes ${body.branch}`, body.items_digest && `has ${body.count ?? 0} items`)];
    case "block.ended":
      return ["said", joined(body.id, body.state, (body.ok || body.failed) && `${body.ok ?? 0} ok, ${body.failed ?? 0} failed`, body.reason)];
    case "rollback.begin":
      return ["said", joined(body.group, body.cause)];
    case "run.end":
      return [body.decision === "HALT" ? "halt" : "said", joined(body.decision, body.reason, body.detail)];
    case "turn.decided":
      return ["other", joined(body.decision, body.reason)];
    default:
      return ["other", text ?? ""];
  }
}
