package webhook

import (
	"context"
	"errors"
	"net"
)

// Reach reports why a hook's address, as its name is resolved now, is not one that is asked; nil
// if one of them is. It sends nothing.
func Reach(ctx context.Context, h Hook) error {
	all, err := compile([]Hook{h})
	if err != nil {
		return err
	}
	e := all[h.Name]
	port := e.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[e.url.Scheme]
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", e.url.Hostname())
	if err != nil {
		return errors.New("its name cannot be resolved")
	}
	err = errors.New("its name has no address")
	for _, ip := range found {
		if err = e.judge(net.JoinHostPort(ip.Unmap().String(), port)); err == nil {
			return nil
		}
	}
	return err
}

// Left counts what waits and what is dead in the file of a state, by the names of the hooks. A file
// that is not there has nothing.
func Left(path string) (waiting, dead map[string]int, err error) {
	s := &Sender{opts: Options{Path: path}}
	st, err := s.read()
	waiting, dead = map[string]int{}, map[string]int{}
	for _, l := range st.Wait {
		waiting[l.Hook]++
	}
	for _, l := range st.Dead {
		dead[l.Hook]++
	}
	return waiting, dead, err
}
