package parse

import "github.com/seed14be6753/stile/messages"

// Window keeps at most the last n messages of a context, and the system messages and feeds before
// and after it. It never keeps results without their question, and never a context without a
// question (docs/spec/cogency.md §7.1). n <= 0 keeps all.
//
// settled reports whether messages before ms would not change the result, so that a caller who
// reads a history backwards may stop.
func Window(ms []messages.Message, n int) (kept []messages.Message, settled bool) {
	if n <= 0 {
		return ms, false
	}
	first := 0
	for first < len(ms) && (ms[first].Role == messages.RoleSystem || ms[first].Holds == messages.HoldsFeeds) {
		first++
	}
	end := len(ms)
	for end > first && (ms[end-1].Role == messages.RoleSystem || ms[end-1].Holds == messages.HoldsFeeds) {
		end--
	}
	at := end - n
	if at < first {
		return ms, false
	}
	if question(&ms[at]) {
		return join(ms[:first], nil, ms[at:]), true
	}
	if at == first {
		return ms, false
	}
	for at++; at < end && ms[at].Holds == messages.HoldsResults; at++ {
	}
	if at < end && question(&ms[at]) {
		return join(ms[:first], nil, ms[at:]), true
	}
	for q := at - 1; q >= first; q-- {
		if question(&ms[q]) {
			return join(ms[:first], &ms[q], ms[at:]), true
		}
	}
	return join(ms[:first], nil, ms[at:]), false
}

func question(m *messages.Message) bool {
	return m.Role == messages.RoleUser && m.Holds != messages.HoldsResults
}

// join concatenates system messages, a question, and the end of a context.
func join(system []messages.Message, q *messages.Message, end []messages.Message) []messages.Message {
	if q == nil && len(system) == 0 {
		return end
	}
	out := append(make([]messages.Message, 0, len(system)+1+len(end)), system...)
	if q != nil {
		out = append(out, *q)
	}
	return append(out, end...)
}
