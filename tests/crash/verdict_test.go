package crash

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// verdict is what came of a kill.
type verdict struct {
	lost, doubled, unknown int
	problems               []string
}

func (v *verdict) add(o verdict) {
	v.lost, v.doubled, v.unknown = v.lost+o.lost, v.doubled+o.doubled, v.unknown+o.unknown
	v.problems = append(v.problems, o.problems...)
}

func (v *verdict) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch {
	case strings.HasPrefix(text, "lost"):
		v.lost++
	case strings.HasPrefix(text, "doubled"):
		v.doubled++
	}
	v.problems = append(v.problems, text)
}

// trial is the evidence: the journal after recovery, the answers to clients, what
// happened outside, and the run that was not killed.
type trial struct {
	sc      *scenario
	agent   *stile.Agent
	archive *stile.Archive
	told    *witness
	deeds   []deed
	unhurt  *calm  // nil while the calm run itself is judged
	torn    bool   // a kill parted records that are committed together
	all     []deed // of all sessions
}

// calm is the run that was not killed.
type calm struct {
	decisions []string
	texts     []string // what users were shown, run by run
	deeds     int
	points    []point
	heard     int
}

// judge holds the evidence against the promises.
func (tr *trial) judge(ctx context.Context) (v verdict, found calm) {
	head, err := tr.archive.Head(ctx, session)
	if err != nil {
		v.fault("the session is gone: %v", err)
		return v, found
	}
	var recs []*stile.Record
	for r, err := range tr.archive.Records(ctx, head.Inc) {
		if err != nil {
			v.fault("the journal cannot be read: %v", err)
			return v, found
		}
		recs = append(recs, r)
	}
	tr.proved(ctx, &v, head)
	tr.kept(&v, recs)
	tr.answered(&v, recs)
	tr.shown(ctx, &v, head, recs)
	tr.ended(&v, recs)
	tr.happened(&v, recs)
	if tr.sc.shelves {
		tr.relics(&v, recs)
	}
	if tr.sc.delegates {
		tr.helped(ctx, &v, recs)
	}
	if tr.sc.undoes {
		tr.undone(&v, recs)
	}
	if tr.sc.blocks {
		tr.nested(&v, recs)
	}
	if tr.sc.streams {
		tr.poured(&v, recs)
	}
	if tr.sc.told {
		tr.informed(ctx, &v, head, recs)
	}
	found = tr.outcome(&v, recs)
	return v, found
}

// proved: the journal verifies, every decision signed, and replays.
func (tr *trial) proved(ctx context.Context, v *verdict, head journal.Head) {
	rep, err := tr.archive.Verify(ctx, head.Inc, stile.VerifyOptions{})
	if err != nil || !rep.OK() || rep.Missing > 0 || rep.Valid == 0 {
		v.fault("verify: %+v, %v", rep, err)
	}
	if tr.torn { // a replay makes whole steps, and this journal has a part of one
		return
	}
	again, err := tr.archive.Replay(ctx, head.Inc, tr.agent)
	if err != nil {
		v.fault("replay: %v", err)
	} else if again.Head != head.Hash {
		v.fault("the replay ends at another head than %d", head.Seq)
	}
}

// kept: everything that a client was told is in the journal.
func (tr *trial) kept(v *verdict, recs []*stile.Record) {
	for _, p := range tr.told.problems {
		v.fault("%s", p)
	}
	for seq, s := range tr.told.records {
		switch {
		case seq > int64(len(recs)):
			v.fault("lost: record %d (%s) was shown, the journal ends at %d", seq, s.Kind, len(recs))
		case hex.EncodeToString(recs[seq-1].Hash[:]) != s.Hash:
			v.fault("lost: record %d (%s) was shown and is another now", seq, s.Kind)
		}
	}
	for i, run := range tr.told.runs {
		ok := slices.ContainsFunc(recs, func(r *stile.Record) bool {
			b, is := r.Body.(*messages.Input)
			return is && r.Run == run && b.Key == fmt.Sprint("submit-", i)
		})
		if !ok {
			v.fault("lost: submit %d was answered as run %d", i, run)
		}
	}
}

// answered: an answer that was taken stands in the journal, once, and nothing began
// without one.
func (tr *trial) answered(v *verdict, recs []*stile.Record) {
	said, asks := map[string]string{}, map[string]string{} // by question; by action, the open question
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ActionApproval:
			id := fmt.Sprint(r.Turn, b.ID)
			switch {
			case b.Approval == "":
			case b.State == messages.GateConfirm:
				asks[id] = b.Approval
			case asks[id] != b.Approval:
				v.fault("doubled: question %s about action %s was answered %s, and it was not open", b.Approval, id, b.State)
			default:
				said[b.Approval] = string(b.State)
				delete(asks, id)
			}
		case *messages.ActionStarted:
			if q := asks[fmt.Sprint(r.Turn, b.ID)]; q != "" {
				v.fault("action %d%s began, and question %s was open", r.Turn, b.ID, q)
			}
		}
	}
	for q, was := range tr.told.words {
		if said[q] != was {
			v.fault("lost: question %s was answered with %s, the journal has %q", q, was, said[q])
		}
	}
}

// shown: in strict durability every byte of a delta was on disk before; in the other
// modes a turn that came to its end by itself has what was shown of it.
func (tr *trial) shown(ctx context.Context, v *verdict, head journal.Head, recs []*stile.Record) {
	if len(tr.told.deltas) == 0 {
		return
	}
	if tr.sc.dialect == "cortex" || tr.sc.dialect == "cogency" || tr.sc.dialect == "kitsu" {
		tr.shownInUnits(v, recs)
		return
	}
	said, settled := map[int64][]byte{}, map[int64]bool{}
	strict := tr.agent.Manifest.Stream.Durability == "strict"
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ModelChunk:
			said[r.Turn] = append(said[r.Turn][:b.Off:b.Off], b.Bytes...)
		case *messages.ModelReply:
			if b.Blob.IsZero() { // nothing was said
				continue
			}
			whole, err := tr.archive.Blob(ctx, head.Inc, b.Blob)
			if err != nil {
				v.fault("lost: the reply of turn %d: %v", r.Turn, err)
			}
			said[r.Turn] = whole
		case *messages.TurnDecided:
			settled[r.Turn] = b.Resumed
		}
	}
	for _, d := range tr.told.deltas {
		if settled[d.Turn] && !strict {
			continue
		}
		text := said[d.Turn] // Off is where the delta ends
		if int(d.Off) > len(text) || !bytes.HasSuffix(text[:d.Off], []byte(d.Text)) {
			v.fault("lost: %d bytes up to %d of turn %d were shown", len(d.Text), d.Off, d.Turn)
		}
	}
}

// shownInUnits: where a reply is made of units, and their text of results, what was
// shown of a unit is in its record. A turn that was settled may lack the record: then
// the client takes back what it saw.
func (tr *trial) shownInUnits(v *verdict, recs []*stile.Record) {
	said, settled := map[string]string{}, map[int64]bool{}
	given := map[string]string{} // by action: its result, of those that ended ok
	begun := map[string]int64{}  // by action: its last attempt, before which what was shown counts no more
	stays := map[string]int64{}  // by unit: what the reader keeps of it when a result that it quotes begins anew
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ActionStarted:
			begun[fmt.Sprint(r.Turn, b.ID)] = r.Seq
		case *messages.ActionEnded:
			if b.State == messages.ActionOK {
				given[fmt.Sprint(r.Turn, b.ID)] = unquoted(b.Result)
			}
		case *messages.Retract:
			if was, ok := stays[b.Unit]; tr.sc.streams && (!ok || b.Off < was) {
				stays[b.Unit] = b.Off
			}
		case *messages.UnitText:
			said[b.Unit] = b.Text
		case *messages.TurnDecided:
			settled[r.Turn] = b.Resumed
		}
	}
	for _, d := range tr.told.deltas {
		if d.Action != "" {
			id := fmt.Sprint(d.Turn, d.Action)
			// Every attempt of a tool says the same; an agent may say something else after a crash.
			if tr.sc.delegates && d.Seq < begun[id] {
				continue
			}
			if text, ok := given[id]; ok && (int(d.Off) > len(text) || !strings.HasSuffix(text[:d.Off], d.Text)) {
				v.fault("lost: %q up to %d of the result of %s was shown", d.Text, d.Off, d.Action)
			}
			continue
		}
		unit := fmt.Sprintf("%d.%d", d.Turn, d.Unit)
		text, ok := said[unit]
		if !ok && settled[d.Turn] {
			continue
		}
		if stay, taken := stays[unit]; taken && d.Off > stay {
			continue // the record says so
		}
		if int(d.Off) > len(text) || !strings.HasSuffix(text[:d.Off], d.Text) {
			v.fault("lost: %q up to %d of unit %d.%d was shown", d.Text, d.Off, d.Turn, d.Unit)
		}
	}
}

// unquoted is the text of a result.
func unquoted(result string) (text string) {
	_ = json.Unmarshal([]byte(result), &text)
	return text
}

// ended: every run, turn and action has one end, and the right one.
func (tr *trial) ended(v *verdict, recs []*stile.Record) {
	type action struct {
		name    string
		class   messages.Class
		changed bool // a relic
		started int
		ends    []*messages.ActionEnded
	}
	restored, doubts := map[int64]bool{}, map[int64][]string{}
	runs, turns, actions := map[int64]int{}, map[int64]int{}, map[string]*action{}
	for _, r := range recs {
		id := func(of string) string { return fmt.Sprint(r.Turn, of) }
		if r.Body.Kind() == "turn.restored" {
			restored[r.Turn] = true
		}
		switch b := r.Body.(type) {
		case *messages.Input:
			runs[r.Run] += 0
		case *messages.RunEnd:
			runs[r.Run]++
		case *messages.TurnBegin:
			turns[r.Turn] += 0
		case *messages.TurnDecided:
			turns[r.Turn]++
			if b.Resumed || b.Reason == messages.ErrCancelled { // nothing of it is repeated
				delete(doubts, r.Turn)
			}
		case *messages.ActionDeclared:
			actions[id(b.ID)] = &action{name: b.Name, class: b.Class}
		case *messages.ActionStarted:
			actions[id(b.ID)].started++
		case *messages.RelicChanged:
			actions[id(b.ID)].changed = true
		case *messages.ActionEnded:
			actions[id(b.ID)].ends = append(actions[id(b.ID)].ends, b)
			if b.State == messages.ActionUnknown {
				v.unknown++
				// What an agent's session left unknown is judged with its own journal (helped).
				if a := actions[id(b.ID)]; restored[r.Turn] && a.class != messages.Effectful && len(b.Children) == 0 {
					doubts[r.Turn] = append(doubts[r.Turn], fmt.Sprintf("action %s (%s) is unknown in a restored turn: its key makes it safe to repeat", id(b.ID), a.class))
				}
			}
		}
	}
	for n, ends := range runs {
		if ends != 1 {
			v.fault("run %d has %d ends", n, ends)
		}
	}
	for n, ends := range turns {
		if ends != 1 {
			v.fault("turn %d has %d decisions", n, ends)
		}
	}
	for _, why := range doubts {
		for _, s := range why {
			v.fault("%s", s)
		}
	}
	did := map[string]int{}
	for _, d := range tr.deeds {
		did[fmt.Sprint(d.Turn, d.ID)]++
	}
	for id, a := range actions {
		if len(a.ends) != 1 {
			v.fault("action %s has %d ends", id, len(a.ends))
			continue
		}
		switch a.ends[0].State {
		case messages.ActionOK:
			if a.started == 0 || tr.sc.classes != nil && a.class != messages.Pure && a.name != "continue" && did[id] == 0 { // which does nothing outside
				v.fault("action %s is ok and never happened", id)
			}
		case messages.ActionCancelled:
			if a.class.Durable() && did[id] > 0 {
				v.fault("lost: action %s is cancelled and happened", id)
			}
		case messages.ActionUnknown:
			if a.started == 0 || !a.class.Durable() && !a.changed {
				v.fault("action %s (%s) is unknown and was started %d times", id, a.class, a.started)
			}
		default:
			e := a.ends[0]
			if e.State == messages.ActionFailed && e.Reason == string(messages.ErrCrash) && len(e.Children) > 0 {
				continue // a child session was given up; whether rightly is judged with its own journal
			}
			if tr.sc.blocks && e.State == messages.ActionSkipped && a.started == 0 {
				continue // in a branch that was not taken, or behind one of which it is not known how it ended
			}
			if !tr.sc.denies || e.State != messages.ActionFailed || e.Reason != "denied" || a.started > 0 {
				v.fault("action %s ended %s(%s)", id, e.State, e.Reason)
			}
		}
	}
}

// happened: effects are counted in the world outside.
func (tr *trial) happened(v *verdict, recs []*stile.Record) {
	keys := map[string]string{} // of the actions that the journal knows as started
	for _, r := range recs {
		if b, ok := r.Body.(*messages.ActionStarted); ok {
			keys[fmt.Sprint(r.Turn, b.ID)] = b.Key
		}
	}
	byID, byKey, byWhat := map[string]string{}, map[string]int{}, map[string]int{}
	for _, d := range tr.deeds {
		id := fmt.Sprint(d.Turn, d.ID)
		if was, ok := byID[id]; ok && was != d.Key {
			v.fault("doubled: %s %s (%s) happened under two keys", d.Tool, d.What, id)
		}
		byID[id] = d.Key
		byKey[d.Key]++
		if d.Class == messages.Effectful && byKey[d.Key] > 1 {
			v.fault("doubled: %s %s (%s) happened %d times", d.Tool, d.What, id, byKey[d.Key])
		}
		if d.Class.Durable() {
			if key, ok := keys[id]; !ok {
				v.fault("lost: %s %s (%s) happened and the journal has no start of it", d.Tool, d.What, id)
			} else if key != d.Key {
				v.fault("doubled: %s %s (%s) happened under another key than the journal's", d.Tool, d.What, id)
			}
			// The scenario's model never asks for the same thing twice in one run.
			if byWhat[d.What] += 1; d.Class == messages.Effectful && byWhat[d.What] > tr.sc.submits {
				v.fault("doubled: %s %s happened %d times in %d runs", d.Tool, d.What, byWhat[d.What], tr.sc.submits)
			}
		}
	}
}

// undone: when a turn is over, each member of a group that was rolled back has one compensation
// if it ended ok, and none if it did not.
func (tr *trial) undone(v *verdict, recs []*stile.Record) {
	groups, begun, ok, undoes := map[string]string{}, map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.RollbackBegin:
			begun[b.Group] = true
		case *messages.ActionDeclared:
			of := b.CompensatesTurn
			if of == 0 {
				of = r.Turn
			}
			if b.Compensates != "" {
				undoes[fmt.Sprint(of, b.Compensates)]++
			} else if b.Group != "" {
				groups[fmt.Sprint(r.Turn, b.ID)] = b.Group
			}
		case *messages.ActionEnded:
			ok[fmt.Sprint(r.Turn, b.ID)] = b.State == messages.ActionOK
		case *messages.TurnDecided:
			for id, group := range groups {
				want := 0
				if begun[group] && ok[id] {
					want = 1
				}
				if n := undoes[id]; n > want {
					v.fault("doubled: action %s has %d compensations", id, n)
				} else if n < want {
					v.fault("lost: action %s is not undone", id)
				}
			}
		}
	}
	if tr.unhurt == nil && (len(undoes) != len(groups) || len(groups) != len(tr.sc.classes)) {
		v.fault("%d of %d actions were undone", len(undoes), len(groups))
	}
}

// nested: a block is decided once, before a child of it begins, ends once, behind its children,
// and nothing of a branch that was not taken begins.
func (tr *trial) nested(v *verdict, recs []*stile.Record) {
	type block struct{ decided, ended int }
	blocks, in, open, skipped := map[string]*block{}, map[string]string{}, map[string]int{}, 0
	for _, r := range recs {
		id := func(of string) string { return fmt.Sprint(r.Turn, of) }
		switch b := r.Body.(type) {
		case *messages.BlockBegin:
			if blocks[id(b.ID)] != nil {
				v.fault("doubled: block %s begins twice", id(b.ID))
			}
			blocks[id(b.ID)] = &block{}
			if b.Block != "" {
				in[id(b.ID)] = id(b.Block)
				open[id(b.Block)]++
			}
		case *messages.BlockDecided:
			if blocks[id(b.ID)].decided++; blocks[id(b.ID)].decided > 1 {
				v.fault("doubled: block %s is decided twice", id(b.ID))
			}
		case *messages.BlockEnded:
			if blocks[id(b.ID)].ended++; blocks[id(b.ID)].ended > 1 || open[id(b.ID)] > 0 {
				v.fault("block %s ends %d times, %d of its children have no end", id(b.ID), blocks[id(b.ID)].ended, open[id(b.ID)])
			}
			if around, ok := in[id(b.ID)]; ok {
				open[around]--
			}
		case *messages.ActionDeclared:
			if b.Block != "" {
				in[id(b.ID)] = id(b.Block)
				open[id(b.Block)]++
			}
		case *messages.ActionStarted:
			if around, ok := in[id(b.ID)]; ok && (blocks[around].decided == 0 || b.ID == untaken) {
				v.fault("action %s begins in a block that is not decided, or in a branch that is not taken", id(b.ID))
			}
		case *messages.ActionEnded:
			if around, ok := in[id(b.ID)]; ok {
				open[around]--
			}
			if b.Reason == messages.BranchNotTaken {
				skipped++
			}
		case *messages.TurnDecided:
			for id, b := range blocks {
				if b.ended == 0 {
					v.fault("turn %d is decided, and block %s has no end", r.Turn, id)
				}
			}
		}
	}
	if tr.unhurt == nil && (len(blocks) != 3 || skipped != 1) {
		v.fault("%d blocks, %d actions in branches that were not taken", len(blocks), skipped)
	}
}

// poured: the records of a result that grows are a prefix of it, attempt by attempt, and together
// the whole.
func (tr *trial) poured(v *verdict, recs []*stile.Record) {
	said, pieces := map[string]string{}, 0
	for _, r := range recs {
		id := func(of string) string { return fmt.Sprint(r.Turn, of) }
		switch b := r.Body.(type) {
		case *messages.ActionStarted:
			said[id(b.ID)] = ""
		case *messages.ActionChunk:
			if pieces++; b.Off != int64(len(said[id(b.ID)])) {
				v.fault("a piece of action %s is at %d, %d bytes are there", id(b.ID), b.Off, len(said[id(b.ID)]))
			}
			said[id(b.ID)] += string(b.Bytes)
		case *messages.ActionEnded:
			if b.State == messages.ActionOK && said[id(b.ID)] != unquoted(b.Result) {
				v.fault("lost: action %s gave %s, its pieces are %q", id(b.ID), b.Result, said[id(b.ID)])
			}
		}
	}
	if tr.unhurt == nil && pieces == 0 {
		v.fault("no result grew")
	}
}

// outcome: the decisions are those of the run that was not killed, or the settled ones.
func (tr *trial) outcome(v *verdict, recs []*stile.Record) (found calm) {
	found.deeds, found.heard = len(tr.deeds), tr.told.heard
	ends := map[int64]*messages.RunEnd{}
	resumed, settled := map[int64]int{}, map[int64]int{}
	last := map[int64]*messages.TurnDecided{}
	var text strings.Builder
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.TurnRestored:
			if b.Cause == messages.RestoreCrash {
				settled[r.Run]++
			}
		case *messages.TurnDecided:
			last[r.Run] = b
			if b.Resumed {
				resumed[r.Run]++
				settled[r.Run]++
				if b.Decision != messages.Halt || b.Reason != messages.ErrCrash {
					v.fault("turn %d was settled %s(%s)", r.Turn, b.Decision, b.Reason)
				}
			}
		case *messages.Emit:
			if !b.Candidate {
				text.WriteString(b.Text + "\n")
			}
		case *messages.UnitText:
			if b.UnitKind == messages.ResponseUnit && b.Complete {
				text.WriteString(b.Text)
			}
		case *messages.RunEnd:
			ends[r.Run] = b
			found.texts = append(found.texts, text.String())
			text.Reset()
		}
	}
	total := 0 // what an earlier run said is what a later one goes on from
	for run := range int64(len(ends)) {
		e := ends[run+1]
		if e == nil {
			v.fault("run %d is missing", run+1)
			continue
		}
		said := string(e.Decision)
		if e.Reason != "" {
			said += "(" + string(e.Reason) + ")"
		}
		found.decisions = append(found.decisions, said)
		if told, ok := tr.told.ends[run+1]; ok && told != said {
			v.fault("lost: run %d was told to end %s, the journal says %s", run+1, told, said)
		}
		if d := last[run+1]; d != nil && !tr.torn && (d.Decision != e.Decision || d.Reason != e.Reason) {
			v.fault("run %d ended %s, its last turn %s(%s)", run+1, said, d.Decision, d.Reason)
		}
		if tr.unhurt == nil || int(run) >= len(tr.unhurt.decisions) { // too many runs are named below
			continue
		}
		total += settled[run+1]
		if n := settled[run+1]; n > maxSettlements+1 {
			v.fault("run %d was settled %d times", run+1, n)
		}
		switch want := tr.unhurt.decisions[run]; {
		case tr.torn && tr.sc.halts && said == "HALT(ERR_CRASH)": // between two turns of it
			total++
		case resumed[run+1] == 0:
			if said != want {
				v.fault("run %d ended %s, unhurt %s", run+1, said, want)
			} else if total == 0 && v.unknown == 0 && found.texts[run] != tr.unhurt.texts[run] {
				v.fault("lost: run %d said %q, unhurt %q", run+1, found.texts[run], tr.unhurt.texts[run])
			}
		case tr.sc.halts || settled[run+1] >= maxSettlements:
			// The last restoration may still bring the run to its end.
			if said != "HALT(ERR_CRASH)" && (tr.sc.halts || said != want) {
				v.fault("run %d was settled %d times and ended %s", run+1, settled[run+1], said)
			}
		case said != want:
			v.fault("run %d was resumed and ended %s, unhurt %s", run+1, said, want)
		}
	}
	if len(found.decisions) != tr.sc.submits {
		v.fault("%d runs, %d submits", len(found.decisions), tr.sc.submits)
	}
	return found
}

// maxSettlements is how often a run is settled before it is given up (docs/spec/design.md §7).
const maxSettlements = 3
