package confine

import (
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// seat is a thread that starts one program and is thrown away after it. It waits in its jail
// for the program, or makes the jail when the program comes.
type seat struct {
	own     numbers
	view    view
	asked   *listener // nil where the kernel does not ask
	program chan func(*seat) error
	started chan error
	ended   chan struct{}
}

// numbers are those by which the filter of a jail knows the calls of the thread that starts its
// program.
type numbers struct {
	group  uint32    // the one that makes the program's process group
	limits [2]uint32 // those that set its limits
}

func newSeat() *seat {
	own := numbers{rand.Uint32(), [2]uint32{rand.Uint32(), rand.Uint32()}}
	return &seat{own: own, view: noView, program: make(chan func(*seat) error), started: make(chan error), ended: make(chan struct{})}
}

// sit has a program started in a jail; nil is none. over lets the thread go, once the program
// has ended.
func sit(j *Jail, start func(*seat) error) (over func(), err error) {
	s := newSeat()
	enter, done, err := s.entering(j)
	if err != nil {
		return nil, err
	}
	defer done()
	onThreadOfItsOwn(func() {
		err := enter()
		if err == nil {
			err = start(s)
			s.view.close()
		}
		s.begun(err)
	})
	return s.over(<-s.started)
}

// waitIn returns a thread that waits in a jail for its program.
func waitIn(j *Jail) (*seat, error) {
	s := newSeat()
	enter, done, err := s.entering(j)
	if err != nil {
		return nil, err
	}
	defer done()
	entered := make(chan error)
	onThreadOfItsOwn(func() {
		err := enter()
		entered <- err
		if err != nil {
			return
		}
		if start, ok := <-s.program; ok {
			s.begun(start(s))
		}
	})
	if err := <-entered; err != nil {
		return nil, err
	}
	return s, nil
}

// entering returns what puts the seat's thread into a jail. done must be called after it.
func (s *seat) entering(j *Jail) (enter func() error, done func(), err error) {
	if j == nil {
		return func() error { return nil }, func() {}, nil
	}
	rules, err := j.ruleset()
	if err != nil {
		return nil, nil, err
	}
	enter = func() (err error) {
		s.asked, s.view, err = j.enter(rules, s.own)
		return err
	}
	return enter, func() { _ = unix.Close(rules) }, nil
}

// begun says on the seat's thread that its program has begun, and waits for its end.
func (s *seat) begun(err error) {
	s.started <- err
	if err == nil {
		<-s.ended
	}
}

func (s *seat) over(err error) (func(), error) {
	if err != nil {
		s.asked.stop()
		return nil, err
	}
	return func() { close(s.ended); s.asked.stop() }, nil
}

// use has a waiting thread start its program.
func (s *seat) use(start func(*seat) error) (over func(), err error) {
	s.program <- start
	return s.over(<-s.started)
}

// close ends a thread that has had no program.
func (s *seat) close() {
	close(s.program)
	s.asked.stop()
}
