//go:build linux && (amd64 || arm64)

package confine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const clientVar = "STILE_TEST_CLIENT"

func TestMain(m *testing.M) {
	if what := os.Getenv(clientVar); what != "" {
		kind, to, _ := strings.Cut(what, " ")
		if err := client(kind, to); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("well")
		}
		// Not os.Exit, which has the race detector sleep for a second: in a jail it does not
		// find GORACE, because it reads its environment in /proc.
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	os.Exit(m.Run())
}

// client is a program that uses the network in one way.
func client(kind, to string) error {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	switch kind {
	case "http": // non-blocking connects, of several threads
		errs := make(chan error)
		for range 8 {
			go func() {
				resp, err := http.Post("http://"+to, "text/plain", bytes.NewReader(big))
				if err != nil {
					errs <- err
					return
				}
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				if want := sum(big); err == nil && string(b) != want {
					err = fmt.Errorf("it read %q", b)
				}
				errs <- err
			}()
		}
		var all error
		for range 8 {
			all = errors.Join(all, <-errs)
		}
		return all
	case "stream": // blocking, with pieces, and more than buffers hold
		fd, err := blocking(to)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		n, err := unix.SendmsgBuffers(fd, [][]byte{big[:7], nil, big[7:99], big[99:]}, nil, nil, 0)
		if err != nil || n != len(big) {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
		if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
			return err
		}
		b, err := io.ReadAll(os.NewFile(uintptr(fd), ""))
		if want := sum(big); err != nil || string(b) != want {
			return fmt.Errorf("it read %q: %w", b, err)
		}
		return nil
	case "refused":
		if _, err := blocking(to); !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("it got %w", err)
		}
		return nil
	case "packets":
		c, err := net.ListenUDP("udp", nil)
		if err != nil {
			return err
		}
		defer c.Close()
		addr := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))
		for range 3 {
			if n, err := c.WriteTo([]byte("hello"), addr); err != nil || n != 5 {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
			if n, _, err := c.WriteMsgUDP([]byte("hello"), nil, addr); err != nil || n != 5 {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
		}
		if _, err := c.WriteTo(big[:65508], addr); !errors.Is(err, unix.EMSGSIZE) {
			return fmt.Errorf("too long: %w", err)
		}
		return nil
	case "control": // a choice of the source is harmless, options of IP are not
		c, err := net.ListenUDP("udp4", nil)
		if err != nil {
			return err
		}
		defer c.Close()
		addr := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))
		if _, _, err := c.WriteMsgUDP([]byte("hello"), unix.PktInfo4(&unix.Inet4Pktinfo{}), addr); err != nil {
			return err
		}
		options := unix.PktInfo4(&unix.Inet4Pktinfo{})
		options[12] = unix.IP_RETOPTS
		if _, _, err := c.WriteMsgUDP([]byte("hello"), options, addr); !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("options: %w", err)
		}
		return nil
	case "zerocopy": // would have the kernel send from the host's memory, later
		fd, err := blocking(to)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1); err != nil {
			return err
		}
		if _, err := unix.SendmsgN(fd, big, nil, nil, unix.MSG_ZEROCOPY); !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("it got %w", err)
		}
		return nil
	case "pair": // passes a descriptor to itself
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		if err := unix.Sendmsg(ends[0], []byte("x"), unix.UnixRights(int(w.Fd())), nil, 0); err != nil {
			return err
		}
		b, oob := make([]byte, 1), make([]byte, 64)
		_, n, _, _, err := unix.Recvmsg(ends[1], b, oob, 0)
		if err != nil {
			return err
		}
		all, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil || len(all) != 1 {
			return fmt.Errorf("%d messages: %w", len(all), err)
		}
		fds, err := unix.ParseUnixRights(&all[0])
		if err != nil {
			return err
		}
		if _, err := unix.Write(fds[0], []byte("y")); err != nil {
			return err
		}
		_, err = io.ReadFull(r, b)
		if err == nil && b[0] != 'y' {
			err = errors.New("another descriptor")
		}
		return err
	case "first": // is a host, whose first process is one in a jail
		cmd := exec.CommandContext(context.Background(), "/bin/true")
		cmd.Env = []string{}
		return Run(cmd, &roomy, &Jail{Sandbox: Probe()})
	case "waits": // for a peer that never answers; the jail ends it
		fd, err := blocking(to)
		if err != nil {
			return err
		}
		for {
			if _, err := unix.SendmsgBuffers(fd, [][]byte{big}, nil, nil, 0); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("there is no client %s", kind)
}

func blocking(to string) (int, error) {
	at := netip.MustParseAddrPort(to)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// What the kernel asks about is done as the program would have it done: the peers are this
// machine's here, which a jail allows in this test alone.
func TestAskedCallsAreDone(t *testing.T) {
	box := Probe()
	if !box.Peers || box.Err() != nil {
		t.Skip("this kernel cannot ask about system calls: ", box.Layers())
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, sum(b))
	}))
	defer server.Close()
	sums, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer sums.Close()
	go func() {
		for {
			c, err := sums.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c)
			_, _ = io.WriteString(c, sum(b))
			_ = c.Close()
		}
	}()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	for _, what := range []string{
		"http " + server.Listener.Addr().String(), "stream " + sums.Addr().String(), "refused " + gone.Addr().String(),
		"packets " + udp.LocalAddr().String(), "control " + udp.LocalAddr().String(), "pair", "zerocopy " + sums.Addr().String(),
	} {
		out, err := inJail(t.Context(), t, box, what)
		if err != nil || out != "well\n" {
			t.Errorf("%s: %q %v", what, out, err)
		}
	}
	got := make([]byte, 16)
	for range 7 {
		if err := udp.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, _, err := udp.ReadFrom(got); err != nil || string(got[:n]) != "hello" {
			t.Fatalf("a packet: %q %v", got[:n], err)
		}
	}
	// A call that waits does not keep the jail.
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c, err := silent.Accept()
		if err == nil {
			defer c.Close()
			_, _ = io.ReadFull(c, make([]byte, 1<<16)) // it has begun
			cancel()
			<-ctx.Done()
		}
	}()
	var exit *exec.ExitError
	if _, err := inJail(ctx, t, box, "waits "+silent.Addr().String()); !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
		t.Errorf("a call that waits: %v", err)
	}
}

// The first process of a host may be one in a jail, also with one processor: nothing that
// Go does between fork and exec, or tries the first time, waits for an answer of Go.
func TestFirstProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = []string{clientVar + "=first", "GOMAXPROCS=1"}
	if out, err := cmd.Output(); err != nil || string(out) != "well\n" && Probe().Err() == nil {
		t.Errorf("%q %v", out, err)
	}
}

func inJail(ctx context.Context, t *testing.T, box Sandbox, what string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{clientVar + "=" + what}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	j := &Jail{Sandbox: box, Read: []string{self}, Write: []string{cmd.Dir}, Network: true, peers: peers{own: true}}
	err = Run(cmd, &Limits{Memory: 1 << 40, Files: 256, FileBytes: 1 << 20, CPU: time.Minute}, j)
	return out.String(), err
}

// What a program's address is judged as, without a packet.
func TestPeers(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": false, "127.255.255.255:80": false, "0.0.0.0:80": false, "0.9.9.9:80": false, "169.254.169.254:80": false, "224.0.0.251:5353": false,
		"[::1]:80": false, "[::]:80": false, "[::ffff:127.0.0.1]:80": false, "[::127.0.0.1]:80": false, "[fe80::1]:80": false, "[ff02::1]:80": false, "[ff01::1]:80": false,
		"[::ffff:169.254.1.1]:80": false, "192.0.2.1:80": true, "10.255.255.1:80": true, "[2001:db8::1]:80": true, "127.0.0.1:53": isNameserver(netip.MustParseAddr("127.0.0.1")),
	} {
		if got := (peers{}).allows(netip.MustParseAddrPort(address)); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
	for text, message := range map[string]bool{"\x00\x00\x00\x50\x7f\x00\x00\x01": true, "\x02\x00\x00\x50\x7f\x00\x00\x01": false} {
		if to, ok := peer([]byte(text), message); !ok || to != netip.MustParseAddrPort("127.0.0.1:80") {
			t.Errorf("%q: %v %t", text, to, ok)
		}
	}
	if _, ok := peer([]byte("\x01\x00/run/socket"), true); ok {
		t.Error("a socket of the file system is a peer")
	}
}
