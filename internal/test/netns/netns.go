//go:build linux

package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/edictdev/edict/internal/test/leftout"
)

// outer tells the child which namespace its parent is in.
const outer = "EDICT_TEST_NETNS"

const own = "/proc/thread-self/ns/net"

// Alone reports whether this process is the child. Where it is not, the test is
// run in one, with flags beside its name, and its outcome becomes t's. Where no
// namespace can be made the test is skipped, and says why.
func Alone(t *testing.T, flags ...string) bool {
	t.Helper()
	here, err := os.Readlink(own)
	if err != nil {
		leftout.Test(t, "this system shows no network namespaces: %v", err)
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			leftout.Test(t, "there is no %s: install iproute2 and nftables", tool)
		}
	}
	if was := os.Getenv(outer); was != "" {
		if was == here {
			t.Fatalf("the child is in the namespace of its parent, %s", here)
		}
		return true
	}
	out, err := again(t, here, flags)
	t.Logf("%s", out)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		t.Fatalf("in its namespace: %v", err)
	case err != nil:
		leftout.Test(t, "network namespaces cannot be made here: %v", err)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Fatal("namespaces can be made here, so nothing may be skipped")
	}
	return false
}

// again runs the test in a namespace: as root where we are, else of a new user.
func again(t *testing.T, here string, flags []string) (out []byte, err error) {
	alone := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	tries := []*syscall.SysProcAttr{alone}
	if os.Geteuid() == 0 { // without a user namespace, whose netlink messages have a bound
		tries = []*syscall.SysProcAttr{{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}, alone}
	}
	for _, attr := range tries {
		runtime.LockOSThread() // the child dies with this thread
		args := append([]string{"-test.run", "^" + t.Name() + "$", "-test.v", "-test.timeout", "10m"}, flags...)
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.SysProcAttr = attr
		cmd.Env = append(os.Environ(), outer+"="+here)
		out, err = cmd.CombinedOutput()
		runtime.UnlockOSThread()
		var exit *exec.ExitError
		if err == nil || errors.As(err, &exit) {
			return out, err
		}
	}
	return out, err
}

// Bounded reports whether this is a user namespace: large netlink messages are
// refused there.
func Bounded() bool {
	var inside, outside, size uint64
	text, err := os.ReadFile("/proc/self/uid_map")
	if err == nil {
		_, err = fmt.Sscan(string(text), &inside, &outside, &size)
	}
	return err != nil || size != 1<<32-1
}

// Space is a network namespace. It goes when the test ends.
type Space struct {
	path string
	work chan func()
}

// New makes an empty namespace.
func New(t *testing.T) *Space {
	t.Helper()
	s := &Space{work: make(chan func())}
	made, gone := make(chan error), make(chan struct{})
	go func() {
		defer close(gone)
		runtime.LockOSThread() // never unlocked: the thread ends, and the namespace with it
		err := unix.Unshare(unix.CLONE_NEWNET)
		s.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		made <- err
		if err != nil {
			return
		}
		for f := range s.work {
			f()
		}
	}()
	if err := <-made; err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() { close(s.work); <-gone })
	return s
}

// Do calls f on a thread that is in the namespace: what f opens or starts is in
// it, wherever it is used later.
func (s *Space) Do(f func()) {
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// IP runs commands of ip in the namespace; nil is the child's own.
func (s *Space) IP(t *testing.T, lines ...string) {
	t.Helper()
	run := func() {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("ip: %v: %s", err, out)
		}
	}
	if s == nil {
		run()
	} else {
		s.Do(run)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// Link joins the child's own namespace and s: here and there name the two ends,
// and follow with what ip takes beside a name.
func (s *Space) Link(t *testing.T, here, there string) {
	t.Helper()
	(*Space)(nil).IP(t, fmt.Sprintf("link add %s type veth peer name %s netns %s", here, there, s.path))
}
