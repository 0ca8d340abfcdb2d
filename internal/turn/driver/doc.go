// Package driver is the pure half of a session's shell: it runs the step loop of one turn
// machine and decides what the shell does next. The actors of a host and the simulator
// drive the same one.
//
//	if d.Begin(inputs...) {
//		for op := d.Next(followed); op != driver.Idle; op = d.Next(followed) {
//			switch op {
//			case driver.Step: // d.Step, then d.Take for each effect
//			case driver.Send: // seal d.Unsealed, append d.Batch, later d.Acked
//			}
//		}
//		d.End()
//	}
//
// Invariants:
//   - inputs are stepped in the order of their arrival, and those that an effect brought
//     about before the next that arrived;
//   - a record is sent in the order of its number and once; an eager record takes the lazy
//     ones in front of it along;
//   - an effect is handed out when the journal has acknowledged the record that it needs,
//     and a turn's effect only while that turn is the one in flight;
//   - the same calls give the same results: the time is an argument.
//
// A Driver does no I/O, starts no goroutine, reads no clock and is not safe for concurrent
// use. It does not seal records, because sealing draws randomness and signs, and it does not
// perform effects: the shell does both.
package driver
