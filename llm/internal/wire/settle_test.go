package wire

import (
	"context"
	"testing"
	"testing/synctest"
)

// byID is a Talk of a provider that finds responses by their ids.
type byID struct{}

func (byID) Next(*Ask, int, string) ([]any, error) { return nil, nil }
func (byID) Heard(string, []byte) bool             { return true }
func (byID) Mark(response string) string           { return response }
func (byID) Sure() bool                            { return true }
func (byID) Cancel(string) any                     { return nil }

// The end of a reply may arrive while its reader leaves: then no reader takes it, and who asks
// whether the conversation has the reply waits until that is known.
func TestEndBesideALeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			s := &session{over: make(chan struct{}), talk: byID{}}
			s.ctx, s.stop = context.WithCancel(t.Context())
			in := s.begin(point{}, 1, "", false)
			said := make(chan struct{})
			go func() {
				defer close(said)
				for _, event := range []string{"response.created", "response.completed"} {
					a := arrival{data: []byte(`{}`)}
					a.head.Type, a.head.Response.ID = event, "resp_1"
					if !s.arrived(a) {
						t.Error("the connection ended")
					}
				}
			}()
			<-in.events
			synctest.Wait() // the end has arrived
			s.leave(in)
			if kept, err := s.Settle(t.Context()); !kept || err != nil {
				t.Fatalf("kept %v, %v", kept, err)
			}
			<-said
			s.stop()
		}
	})
}
