package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The environment of tests in networks of their own.
const (
	netEnv     = "STILE_CLUSTER_NETWORK" // the prefix of its namespaces, in a process inside of it
	requireEnv = "STILE_REQUIRE_NETNS"   // 1: where no namespace can be made, tests fail
)

// network is a network namespace for each host and one for all else, where the test runs: PostgreSQL,
// the load balancer, clients and the witness. A router in a namespace of its own is between
// them. What it does not pass on, it drops without a word.
//
//	a ─┐
//	b ─┼─ router ─ outside: clients, witness at .9.2, PostgreSQL at .9.3
//	c ─┘
type network struct{ prefix string }

// Who is in a network, beside hosts.
const (
	router   = "router"
	outside  = "outside"
	database = "database" // is outside, at an address of its own
)

// netHosts are the hosts that a network has room for.
var netHosts = []string{"a", "b", "c"}

// address is where one in the network is.
func (n *network) address(of string) string {
	switch of {
	case outside:
		return "10.77.9.2"
	case database:
		return "10.77.9.3"
	}
	return fmt.Sprintf("10.77.%d.2", of[0]-'a'+1)
}

// link is the router's end of the link to one in the network.
func (n *network) link(to string) string {
	if to == database {
		to = outside
	}
	return "to-" + to
}

func (n *network) namespace(of string) string { return n.prefix + "-" + of }

// run runs a command of iproute2.
func run(words ...string) (out string, err error) {
	b, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, b)
	}
	return string(b), nil
}

// ip changes something in a namespace.
func (n *network) ip(of string, words ...string) error {
	_, err := run(append([]string{"ip", "-n", n.namespace(of)}, words...)...)
	return err
}

// make makes the namespaces and what connects them.
func (n *network) make() error {
	if os.Geteuid() != 0 {
		return errors.New("only root makes network namespaces")
	}
	sweep()
	all := append([]string{outside}, netHosts...)
	for _, one := range append([]string{router}, all...) {
		if _, err := run("ip", "netns", "add", n.namespace(one)); err != nil {
			return err
		}
		if err := n.ip(one, "link", "set", "lo", "up"); err != nil {
			return err
		}
	}
	for _, one := range all {
		gate := strings.TrimSuffix(n.address(one), "2") + "1"
		for _, step := range [][]string{
			{router, "link", "add", "name", n.link(one), "type", "veth", "peer", "name", "eth0", "netns", n.namespace(one)},
			{router, "addr", "add", gate + "/24", "dev", n.link(one)},
			{router, "link", "set", n.link(one), "up"},
			{one, "addr", "add", n.address(one) + "/24", "dev", "eth0"},
			{one, "link", "set", "eth0", "up"},
			{one, "route", "add", "default", "via", gate},
		} {
			if err := n.ip(step[0], step[1:]...); err != nil {
				return err
			}
		}
	}
	if err := n.ip(outside, "addr", "add", n.address(database)+"/24", "dev", "eth0"); err != nil {
		return err
	}
	_, err := run("ip", "netns", "exec", n.namespace(router), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
	return err
}

// remove removes the namespaces, and with them all that is in them.
func (n *network) remove() {
	for _, one := range append([]string{router, outside}, netHosts...) {
		_, _ = run("ip", "netns", "del", n.namespace(one)) // where it was not made there is nothing to do
	}
}

// netPrefix begins the names of our namespaces; the id of the process that made them comes next.
const netPrefix = "stile-test-"

// sweep removes namespaces whose process was killed before it could.
func sweep() {
	all, err := filepath.Glob("/run/netns/" + netPrefix + "*")
	if err != nil {
		return // the pattern is good
	}
	for _, path := range all {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), netPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_, _ = run("ip", "netns", "del", filepath.Base(path)) // another test may be as quick
		}
	}
}

// inNetwork runs a test once more in a process within a network of its own, and returns that network
// there. Outside it returns nil when all has been done. A test that cannot have a network is skipped.
func inNetwork(t *testing.T) *network {
	t.Helper()
	if prefix := os.Getenv(netEnv); prefix != "" {
		return &network{prefix}
	}
	n := &network{netPrefix + strconv.Itoa(os.Getpid())}
	t.Cleanup(n.remove)
	if err := n.make(); err != nil {
		if os.Getenv(requireEnv) == "1" {
			t.Fatalf("%s=1, and there are no network namespaces: %v", requireEnv, err)
		}
		t.Skip("there are no network namespaces here: ", err)
	}
	words := append([]string{"netns", "exec", n.namespace(outside), os.Args[0]}, os.Args[1:]...)
	cmd := exec.Command("ip", append(words, "-test.run=^"+t.Name()+"$", "-test.v=true", "-test.count=1", "-test.testlogfile=")...)
	cmd.Env = append(os.Environ(), netEnv+"="+n.prefix)
	out, err := cmd.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
	return nil
}

// listen listens outside, at one of its addresses.
func (n *network) listen(t *testing.T, of string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", n.address(of)+":0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// cut lets no packet from one to another pass, and checks that; heal ends it.
func (n *network) cut(from, to string) (heal func() error, err error) {
	rule := []string{"from", n.address(from), "to", n.address(to), "blackhole"}
	if err := n.ip(router, append([]string{"rule", "add"}, rule...)...); err != nil {
		return nil, err
	}
	if n.passes(from, to) {
		return nil, fmt.Errorf("from %s to %s passes all that was to be cut", from, to)
	}
	return func() error {
		if err := n.ip(router, append([]string{"rule", "del"}, rule...)...); err != nil {
			return err
		}
		if !n.passes(from, to) {
			return fmt.Errorf("from %s to %s nothing passes", from, to)
		}
		return nil
	}, nil
}

// passes reports whether the router passes on what comes from one to another.
func (n *network) passes(from, to string) bool {
	return n.ip(router, "route", "get", n.address(to), "from", n.address(from), "iif", n.link(from)) == nil
}

// part cuts both ways.
func (n *network) part(one, other string) (heal func() error, err error) {
	there, err := n.cut(one, other)
	if err != nil {
		return nil, err
	}
	back, err := n.cut(other, one)
	if err != nil {
		return nil, err
	}
	return func() error { return errors.Join(there(), back()) }, nil
}

// slow has the link of a host pass on so many kilobits in a second, each way.
func (n *network) slow(host string, kilobits int) (heal func() error, err error) {
	ends := [][]string{{"-n", n.namespace(router), "qdisc", "", "dev", n.link(host), "root"}, {"-n", n.namespace(host), "qdisc", "", "dev", "eth0", "root"}}
	change := func(how string, more ...string) (err error) {
		for _, end := range ends {
			end[3] = how
			_, failed := run(append(append([]string{"tc"}, end...), more...)...)
			err = errors.Join(err, failed)
		}
		return err
	}
	return func() error { return change("del") }, change("add", "tbf", "rate", fmt.Sprint(kilobits)+"kbit", "burst", "4kb", "latency", "400ms")
}

// loopback is a listener in a network where no stranger is: a host whose callers show no tokens
// listens on loopback alone.
type loopback struct{ net.Listener }

// Addr implements net.Listener.
func (l loopback) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: l.Listener.Addr().(*net.TCPAddr).Port}
}
