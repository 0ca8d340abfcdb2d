// Package sim runs sessions under a seed, in a world where everything that can
// go wrong does, and checks after every step that nothing went wrong for good.
//
// A world is made of what the product itself uses – turn.Machine, driver.Driver, the
// dialects, the interpreter, groupcommit.Writer, Sealer and Judge – and of what stands
// around it, simulated: two hosts with clocks of their own, a disk that loses,
// tears and reorders what was not synced, a model that writes at random, tools
// that fail, hang, panic and answer late, users who submit twice, cancel,
// supersede what they asked, and add to it. One random sequence decides what happens
// next. The model speaks the dialects of dialect.go: programs, plain text, replies that
// are acted on while they stream, whose actions depend on each other, some of them made of
// templates, in groups that are rolled back, in conditions, loops and groups that run together, or
// with results that grow, and action tokens.
// Actions change what the session itself keeps, variables and key-value relics, and what
// stands outside: tools, and relics of databases and servers. Actions of type agent have
// sessions of their own run for them, in the same world. Agents have context feeds, which
// their models change; the sources fail, are late, say the same again or too much, and
// periodic ones tick between turns.
//
// Most sessions are of the newest rendering, and forgive what its manifests forgive; models
// miss their dialect in the ways that real ones do. Turns that fail by a mistake of the model
// are followed by another, and some agents take no answer that does not pass.
//
// Worlds of Options.Hosts are clusters: hosts that share the journal with leases by the database's
// clock (cluster.go). What a host believes and does about leases is the product's own code
// (internal/lease), and so is what it does about sessions; the database, what is on its way to it
// and between hosts, and how membership and package host act on that, is simulated (seat.go,
// request.go).
//
// Invariants held after every step (the names are those of a Failure):
//
//	single-flight  at most one turn is in flight per session and owner
//	order          nothing is published, answered, asked of a model or begun
//	               outside before the record it needs is on the disk
//	forgotten      what a subscriber saw or a client was promised is never lost
//	fence          a batch is accepted if and only if it continues the head, and
//	               an owner that was superseded is told so
//	history        one decision per turn, one end per action and run, in order; an
//	               action begins when all it depends on is fulfilled and a slot is
//	               free, not before and not later, and is skipped only for a reason
//	               that stands in the records; a text is what the model wrote, but
//	               for its references (graph.go); inputs begin runs, join them and
//	               wait as their policies say (busy.go); a pass of kitsu follows what
//	               was done, takes its place, and there are so many (companion.go);
//	               a session's variables are what recorded ends made them (variable.go),
//	               its relics what was changed once under a key (relic.go); an action of
//	               a template calls what the newest definition of the run says
//	               (template.go); members of a group that is rolled back begin no more, and each
//	               that ended ok is undone once, in the reverse order of ends, before the turn is
//	               decided (rollback.go); a block is decided once, before a child of it
//	               begins, what begins in it is in the branch that it took, beside as many as
//	               have a place and after no failure that stops it, and it ends once all that
//	               stands in it has, in the state that follows, also when it is read again
//	               (nesting.go, control.go); the pieces of a result follow each other, attempt by
//	               attempt, and are the whole when it ends well (pour.go); a turn that failed is mended where it may be and nowhere else
//	               (chance.go); a text that is held is not shown before it counts, and an
//	               answer not before it passes (answer.go); what is
//	               reserved for actions is there beside all else that is, and a run
//	               that has used more than it may goes no further (family.go)
//	chain          the journal's chain verifies and its head summarises it
//	projection     the machine's state is the fold of the encoded records, and
//	               snapshot and tail give the same as all records
//	family         a child session is of one action, named by its record, and has one
//	               run, under the action's key; that has ended when the action's end
//	               is recorded, unless no session knows it, and what it used is the
//	               action's (family.go); one that is woken when its action has ended
//	               does not go on, and none is cancelled as an orphan while its action
//	               waits for it (orphan.go)
//	effect         an effectful action begins once, a keyed one under one key
//	               alone, and no record says what the outside does not know
//	feed           a prompt has every feed that is there, in their order, with a value that
//	               its source gave or a reason why there is none; that is recorded, "$id"
//	               stands for it until the turn is decided, also after a restart, and
//	               nothing is fetched that is gone, switched off or had (feed.go)
//	chance         a prompt tells of all turns behind the last that completed: what each
//	               has done and the user has seen, so that a model that heeds it does
//	               nothing again that was done or may have been; it has the streams of
//	               the one that completed (chance.go)
//	conversation   a model that is asked over a conversation that its provider keeps has the
//	               prompt that was built, message by message, nothing of what passed with
//	               the prompts before it, and nothing of what it wrote
//	               behind the place where its reply ended on record; there is one connection
//	               at most, and none when the session sleeps; a request that sends everything
//	               has a record that says why, and a run that goes on without a conversation
//	               keeps to it (talk.go)
//	decision       a decision stands on a token of its own turn, used once
//	lease          of a session, one host at most has it awake and believes in its lease, and
//	               the database says that it is that one; a host without shows, answers and
//	               begins nothing, also when it wakes up behind its lease; a submit that is
//	               made again under its key is one input
//	rest           at the end every accepted run has exactly one end; hosts of a cluster take up
//	               by themselves what is open
//	step           the machine refuses no input and nothing panics
//
// The same seed gives the same journal, byte for byte, on any number of cores.
//
// The shells' decisions are tested with the machine: a world drives the same driver.Driver
// as the actors of a host. It does not test the actors themselves, the stores on disk or
// the doors: it takes their places.
package sim
