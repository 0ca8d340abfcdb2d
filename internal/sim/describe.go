package sim

import (
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
)

func describe(in turn.Input) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", in), "*turn.")
	switch in := in.(type) {
	case *turn.Submit:
		return fmt.Sprintf("%s h%d %s key=%q", name, in.Handle, in.Input.Policy, in.Input.Key)
	case *turn.Cancel:
		return fmt.Sprintf("%s h%d run %d", name, in.Handle, in.Run)
	case *turn.Decoded:
		return fmt.Sprintf("%s t%d %d bytes %d events", name, in.Turn, len(in.Bytes), len(in.Events))
	case *turn.ReplyEnd:
		return fmt.Sprintf("%s t%d %s %d events", name, in.Turn, in.Finish, len(in.Events))
	case *turn.Emitted:
		return fmt.Sprintf("%s t%d %d", name, in.Turn, len(in.Emissions))
	case *turn.ProgramCall:
		return fmt.Sprintf("%s t%d %s %s%s", name, in.Turn, in.ID, in.Name, in.Args)
	case *turn.Judged:
		return fmt.Sprintf("%s t%d %s %s", name, in.Turn, in.ID, in.Answer)
	case *turn.ActionEnded:
		return fmt.Sprintf("%s t%d %s %s %s %s", name, in.Turn, in.ID, in.State, in.Reason, in.Result)
	case *turn.ActionChunk:
		return fmt.Sprintf("%s t%d %s %q", name, in.Turn, in.ID, in.Text)
	case *turn.ProgramEnd:
		return fmt.Sprintf("%s t%d %s %s", name, in.Turn, in.Code, in.Detail)
	case *turn.Verified:
		return fmt.Sprintf("%s t%d %+v", name, in.Turn, in.Checks)
	case *turn.RelicCall:
		return fmt.Sprintf("%s t%d %s %s %s", name, in.Turn, in.ID, in.Relic, in.Args)
	case *turn.Timer:
		return fmt.Sprintf("%s %s %d", name, in.Clock, in.Gen)
	case *turn.Due:
		return fmt.Sprintf("%s t%d %s attempt %d", name, in.Turn, in.ID, in.Attempt)
	case *turn.ChildDown:
		return fmt.Sprintf("%s t%d %s %s: %s", name, in.Turn, in.Child, in.ID, in.Detail)
	}
	return name
}

func describeEffect(e turn.Effect) string {
	switch e := e.(type) {
	case *turn.Persist:
		how := "now"
		if e.Hold > 0 {
			how = e.Hold.String()
		}
		return fmt.Sprintf("record %d (%s) r%d t%d %s %s", e.Record.Seq, how, e.Record.Run, e.Record.Turn, e.Record.Body.Kind(), cut(string(journal.AppendBody(nil, e.Record.Body))))
	case *turn.Publish:
		return fmt.Sprintf("delta after %d %s %d", e.After, e.Update.Delta.Unit, e.Update.Delta.Off)
	case *turn.OpenModel:
		return fmt.Sprintf("open-model after %d t%d pass %d", e.After, e.Turn, e.Pass)
	case *turn.RunProgram:
		return fmt.Sprintf("run-program t%d %q", e.Turn, e.Source)
	case *turn.StartAction:
		return fmt.Sprintf("start-action after %d t%d %s %s %s attempt %d %s", e.After, e.Turn, e.ID, e.Name, e.Class, e.Attempt, e.Args)
	case *turn.SetTimer:
		return fmt.Sprintf("set-timer %s %d", e.Clock, e.Gen)
	}
	return cut(strings.TrimPrefix(fmt.Sprintf("%T %+v", e, e), "*turn."))
}

func cut(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}
