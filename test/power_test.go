//go:build linux

package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/check"
	"github.com/edictdev/edict/internal/test/leftout"
)

// fragileDisk is a file system of its own whose power can be cut: what was not
// synced by then is lost, as a machine loses it that goes dark.
type fragileDisk struct {
	t    *testing.T
	dir  string
	loop *os.File // the device that an image's file is behind
}

// newFragileDisk makes one. A test needs root and a loop device for it.
func newFragileDisk(t *testing.T) *fragileDisk {
	t.Helper()
	d := &fragileDisk{t: t, dir: t.TempDir()}
	image := filepath.Join(newSmallDisk(t, 192*mib).dir, "image") // in memory: what it costs to sync is no matter here
	f, err := os.OpenFile(image, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(128*mib))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", image).CombinedOutput(); err != nil {
		leftout.Test(t, "a disk that loses power needs mkfs.ext4 (%v: %s): install e2fsprogs", err, out)
	}
	if d.loop, err = attach(f); err != nil {
		leftout.Test(t, "a disk that loses power needs a loop device, and none is to be had (%v): run the test as root", err)
	}
	t.Cleanup(func() {
		_ = unix.IoctlSetInt(int(d.loop.Fd()), unix.LOOP_CLR_FD, 0) //nolint:gosec // a descriptor
		d.loop.Close()
	})
	if err := d.mount(); err != nil {
		leftout.Test(t, "a disk that loses power is a file system of its own, and this user may not mount one (%v): run the test as root", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(d.dir, syscall.MNT_DETACH)) })
	return d
}

// attach puts a file behind a free loop device.
func attach(f *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range 10 { // another process may take the free one
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE) //nolint:gosec // a descriptor
		if err != nil {
			return nil, err
		}
		loop, err := os.OpenFile(fmt.Sprint("/dev/loop", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		if err = unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_SET_FD, int(f.Fd())); err == nil { //nolint:gosec // descriptors
			return loop, nil
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, unix.EBUSY
}

func (d *fragileDisk) mount() error { return syscall.Mount(d.loop.Name(), d.dir, "ext4", 0, "") }

// The request that file system tests call godown: from now on nothing reaches the
// device, the journal that was not written included.
const (
	shutdownRequest = 0x8004587d // EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
	withoutJournal  = uint32(2)  // EXT4_GOING_FLAGS_NOLOGFLUSH
)

// cut is the end of power.
func (d *fragileDisk) cut() {
	d.t.Helper()
	root, err := os.Open(d.dir)
	require.NoError(d.t, err)
	defer root.Close()
	flags := withoutJournal
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, root.Fd(), shutdownRequest, uintptr(unsafe.Pointer(&flags)))
	require.Zero(d.t, errno, "%v", errno)
}

// back is its return. Nobody may have a file open.
func (d *fragileDisk) back() {
	d.t.Helper()
	require.NoError(d.t, syscall.Unmount(d.dir, 0))
	require.NoError(d.t, d.mount())
}

// TestAPowerCutTakesNothingThatWasAcknowledged cuts the power of a plane's disk
// while authors write over HTTP and a producer over NATS, and reads the log that
// the disk has then: with strict durability everything that was acknowledged is in
// it, whoever said so. That this finds what it looks for is seen on a plane whose
// server does not sync, because it was configured so, or by a mistake that is put in.
func TestAPowerCutTakesNothingThatWasAcknowledged(t *testing.T) {
	t.Run("strict", func(t *testing.T) {
		t.Parallel()
		p, lost := powerCut(t, "strict")
		require.Empty(t, lost)
		p.start()
		_, code := p.run("replay", "--verify")
		require.Zero(t, code)
		p.terminate()
	})
	t.Run("a server that does not sync", func(t *testing.T) {
		t.Parallel()
		p, lost := powerCut(t, "strict", "EDICT_MUTANT="+string(fault.LazySync)+":1")
		require.NotEmpty(t, lost, "nothing was synced, and nothing is missed")
		require.Contains(t, p.log.String(), "durability is relaxed", "the plane asks its server, not its flag")
	})
	t.Run("relaxed", func(t *testing.T) {
		if !*long {
			return
		}
		_, lost := powerCut(t, "relaxed")
		require.NotEmpty(t, lost)
	})
}

// powerCut runs a plane until the power of its disk is cut under load, and lists
// what was acknowledged and is not in its log.
func powerCut(t *testing.T, durability string, env ...string) (p *process, lost []string) {
	t.Helper()
	d := newFragileDisk(t)
	bin, err := struck()
	require.NoError(t, err)
	p = newProcess(t, bin, "--durability", durability, "--min-free", "0")
	t.Cleanup(p.kill) // before the disk goes
	p.data, p.env = filepath.Join(d.dir, "data"), env
	p.start()
	p.env = nil
	for i := range 3 {
		p.do("PUT", fmt.Sprintf("/v1/projects/%s/nodes/n%d", defaultProject, i), map[string]any{"labels": map[string]string{}, "addresses": []string{}}, 201)
	}
	require.Equal(t, durability == "strict" && env == nil, p.status("").Durability == "strict", "the plane says what its server does")
	ctx, stop := context.WithCancel(t.Context())
	l := startWriting(ctx, time.Millisecond, newAuthor("author", 1, []string{"n0"}, func() string { return "http://" + p.http }))
	o := produce(t, "nats://"+p.nats, "producer", "n1", "n2")
	require.True(t, waitFor(20*time.Second, func() bool { return l.acked.Load() > 40 && o.acked() > 40 }), "they write")
	p.halts()
	d.cut()
	p.kill()
	stop() // what was begun is not acknowledged any more
	o.end()
	l.end()
	d.back()
	log := storedLog(t, filepath.Join(p.data, "nats"))
	for _, x := range (&check.Run{Log: log, Acks: o.acks}).Lost() {
		lost = append(lost, x.String())
	}
	var bodies [][]byte
	for _, e := range log {
		bodies = append(bodies, e.Body)
	}
	t.Logf("%d writes and %d publications acknowledged, %d events on the disk", l.acked.Load(), len(o.acks), len(log))
	return p, append(lost, l.lost(bodies)...)
}

// halts stops all of the process: without power nobody says anything. What it has the disk do
// goes on. A sync that was begun before the cut may end well after it, as ext4 forgets a
// transaction that failed, and a process that went on would acknowledge what is lost.
func (p *process) halts() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	tasks := fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid)
	require.True(p.t, waitFor(10*time.Second, func() bool {
		threads, err := os.ReadDir(tasks)
		require.NoError(p.t, err)
		return !slices.ContainsFunc(threads, func(e os.DirEntry) bool {
			stat, err := os.ReadFile(filepath.Join(tasks, e.Name(), "stat"))
			if err != nil {
				return false // it ended
			}
			_, rest, _ := strings.Cut(string(stat), ") ")
			return !strings.HasPrefix(rest, "T") && !strings.HasPrefix(rest, "D")
		})
	}), "the process does not stop")
}

// storedLog is the log that a directory of a server holds.
func storedLog(t *testing.T, dir string) (log []check.Event) {
	t.Helper()
	s, err := streams.StartServer(streams.ServerOptions{Dir: dir})
	require.NoError(t, err)
	defer s.Close()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "EDICT_LOG")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	require.NoError(t, err)
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	for seq := info.State.FirstSeq; seq > 0 && seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		require.NoError(t, err)
		log = append(log, check.Event{Seq: seq, Subject: m.Subject, Body: m.Data})
	}
	return log
}
