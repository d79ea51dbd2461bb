package kubernetes

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program is a process that the test started.
type program struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  string // file of what it prints
	gone chan struct{}
}

// run starts a program that lasts until the test ends, or until it is ended before.
func run(t *testing.T, dir, name, bin string, args ...string) *program {
	t.Helper()
	p := &program{t: t, name: name, cmd: exec.Command(bin, args...), log: filepath.Join(dir, name+".log"), gone: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, p.cmd.Start())
	out.Close()
	go func() { p.cmd.Wait(); close(p.gone) }()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the last that %s printed:\n%s", name, p.tail())
		}
	})
	return p
}

// tail is the end of what it printed.
func (p *program) tail() string {
	text, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

func (p *program) printed(text string) bool {
	all, err := os.ReadFile(p.log)
	require.NoError(p.t, err)
	return bytes.Contains(all, []byte(text))
}

func (p *program) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// kill ends it as kill -9 does.
func (p *program) kill() {
	p.cmd.Process.Kill() // fails when it has ended
	<-p.gone
}

// stop ends it in order, and wants exit 0.
func (p *program) stop() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.gone:
	case <-time.After(patient):
		p.kill()
		require.Fail(p.t, p.name+" does not stop")
	}
	require.Zero(p.t, p.cmd.ProcessState.ExitCode(), "%s:\n%s", p.name, p.tail())
}

// used is what it has cost so far: seconds of CPU, and MiB resident at most.
func (p *program) used() (cpu float64, peak int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, f := range fields[11:13] {
		ticks, err := strconv.ParseFloat(f, 64)
		require.NoError(p.t, err)
		cpu += ticks / 100
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	for _, line := range strings.Split(string(status), "\n") {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			peak, _ = strconv.Atoi(strings.Fields(kb)[0])
		}
	}
	return cpu, peak >> 10
}

// freePort is a port of loopback that nobody listens on.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

const patient = 60 * time.Second

// eventually waits for something that must come. It asks on the test's own goroutine, so
// what is asked may end the test.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	eventuallyIn(t, patient, what, so)
}

// eventuallyIn is eventually with a patience of its own.
func eventuallyIn(t *testing.T, patience time.Duration, what string, so func() bool) {
	t.Helper()
	end := time.After(patience)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-end:
			require.Fail(t, "it did not come: "+what)
		}
	}
}
