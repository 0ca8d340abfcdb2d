package parse

import "github.com/seed14be6753/stile/messages"

// Window keeps the last n messages of a context at most, beside the system messages in
// front of it: never results without their question, and never a context without one
// (cogency.md §7.1). n <= 0 keeps all.
//
// settled tells that messages in front of ms would change nothing: whoever reads a
// history backwards may stop.
func Window(ms []messages.Message, n int) (kept []messages.Message, settled bool) {
	if n <= 0 {
		return ms, false
	}
	first := 0
	for first < len(ms) && (ms[first].Role == messages.RoleSystem || ms[first].Holds == messages.HoldsFeeds) {
		first++
	}
	body := ms[first:]
	if len(body) < n {
		return ms, false
	}
	at := len(body) - n
	if question(&body[at]) {
		return join(ms, first, nil, body[at:]), true
	}
	if at == 0 {
		return ms, false
	}
	for at++; at < len(body) && body[at].Holds == messages.HoldsResults; at++ {
	}
	if at < len(body) && question(&body[at]) {
		return join(ms, first, nil, body[at:]), true
	}
	for q := at - 1; q >= 0; q-- {
		if question(&body[q]) {
			return join(ms, first, &body[q], body[at:]), true
		}
	}
	return join(ms, first, nil, body[at:]), false
}

func question(m *messages.Message) bool {
	return m.Role == messages.RoleUser && m.Holds != messages.HoldsResults
}

// join puts together system messages, a question, and the end of a context.
func join(ms []messages.Message, system int, q *messages.Message, end []messages.Message) []messages.Message {
	if q == nil && system == 0 {
		return end
	}
	out := append(make([]messages.Message, 0, system+1+len(end)), ms[:system]...)
	if q != nil {
		out = append(out, *q)
	}
	return append(out, end...)
}
