//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// memoryGroup makes a control group of so many bytes and returns the file that
// takes its processes; "" where none can be made.
func memoryGroup(t *testing.T, limit int) (procs string) {
	t.Helper()
	name := "edict-test-" + strconv.Itoa(os.Getpid())
	// In the group of this process, where that is seen; else below the root.
	own, _ := os.ReadFile("/proc/self/cgroup")
	var tried []string
	for line := range strings.Lines(string(own)) {
		_, controllers, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(controllers, ":")
		root, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		if controllers == "" {
			root, file = "/sys/fs/cgroup", "memory.max"
		} else if controllers != "memory" {
			continue
		}
		for _, parent := range []string{filepath.Join(root, path), root} {
			dir := filepath.Join(parent, name)
			err := os.Mkdir(dir, 0o755)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0)
			}
			if err != nil {
				tried = append(tried, err.Error())
				_ = os.Remove(dir) // it may not be there
				continue
			}
			t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Logf("NOT LIMITED: no control group can be made here, so this shows that the worker starts, and not in which memory: %v", tried)
	return ""
}

// confined is the product's binary in a control group.
func confined(t *testing.T, procs string) (bin string) {
	t.Helper()
	bin, err := edict()
	require.NoError(t, err)
	if procs == "" {
		return bin
	}
	script := filepath.Join(t.TempDir(), "edict")
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nunset GOGC GOMEMLIMIT\necho $$ > %s && exec %s \"$@\"\n", procs, bin), 0o700))
	return script
}

// listOf is text of about so many bytes: pieces between commas.
func listOf(size int, before, after string, piece func(i int) string) string {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(piece(i))
	}
	return b.String() + after
}

// junk are bodies of about so many bytes that are no events, each heavy in its
// own way for whoever reads it.
func junk(size int) []string {
	node := `{"id":"` + uuid.NewString() + `","type":"node_updated","project_id":"` + defaultProject + `","node_id":"junk",`
	return []string{
		strings.Repeat("x", size),
		listOf(size, "{", "}", func(i int) string { return fmt.Sprintf(`"%x":1`, i) }),
		listOf(size, `{"x":{`, "}}", func(i int) string { return fmt.Sprintf(`"%x":1`, i) }),
		listOf(size, node+`"addresses":[],"labels":{`, "}}", func(i int) string { return fmt.Sprintf(`"%x":""`, i) }),
		listOf(size, node+`"addresses":[],"labels":{`, "}}", func(i int) string { return fmt.Sprintf(`"-%x":""`, i) }),
	}
}

// A producer fills the log with what is no event. A worker of a quarter of the
// size that the manifests ship, or an eighth, folds it all the same, from nothing.
func TestALogOfJunkFoldsInSmallMemory(t *testing.T) {
	limit, events, padded := upTo(128*mib, 512*mib), upTo(5, 100), upTo(12, 30)
	nodeBody := map[string]any{"labels": map[string]string{"role": "web"}, "addresses": []string{}}
	size := upTo(4, 7) * mib
	procs := memoryGroup(t, limit)
	c := newCluster(t, 1, 2*time.Second)
	first := c.work()

	nc, err := nats.Connect(c.url)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	var ack *jetstream.PubAck
	bodies := junk(size)
	for i := range events {
		body := bodies[i%len(bodies)]
		if !*long && i != 1 && i != 3 { // these are slow to read
			body = bodies[0]
		}
		ack, err = js.Publish(t.Context(), "edict.log."+defaultProject+".node.junk", []byte(body))
		require.NoError(t, err)
	}
	// And what is good, but for a body of white space.
	for i := range padded {
		e := revisionEvent{defaultProject, uuid.NewString(), fmt.Sprintf("p%d", i), "", "role=web", goodRule}
		body := e.String() + strings.Repeat(" ", size)
		ack, err = js.Publish(t.Context(), "edict.log."+defaultProject+".policy."+e.policy, []byte(body))
		require.NoError(t, err)
	}
	last := ack.Sequence
	require.True(t, waitFor(5*time.Minute, func() bool { return first.status("").Applied >= last }), "the log is not folded")
	first.do("PUT", "/v1/projects/"+defaultProject+"/nodes/web-1", nodeBody, 201)
	// The witness speaks of all of it, as it does of what was written long ago.
	first.terminate()

	small := &process{
		t: t, bin: confined(t, procs), data: t.TempDir(), http: anyPort, nats: c.url, where: first.where,
		args: []string{"--name", "small"},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the small worker printed:\n%s", small.log.String())
		}
	})
	t.Cleanup(func() { small.kill() })
	ready := small.launch()
	require.True(t, small.becomesReady(ready, 5*time.Minute), "a worker in %d MiB does not start: %v", limit/mib, small.cmd.ProcessState)
	require.Equal(t, events, int(small.status("").Rejected))
	require.Equal(t, padded, small.status("").Policies)
	require.Greater(t, small.status("").Applied, last)
	small.do("PUT", "/v1/projects/"+defaultProject+"/nodes/web-2", nodeBody, 201)
	t.Logf("the most it held: %s", peak(procs))
	if *long {
		small.readsAll(last)
	}
	small.terminate()
}

// readsAll has the commands that read a whole log do so beside the worker, in its memory,
// and the worker compact it.
func (p *process) readsAll(last uint64) {
	p.t.Helper()
	dir := p.t.TempDir()
	for _, args := range [][]string{
		{"replay"},
		{"log", "verify"},
		{"log", "export", "--to", filepath.Join(dir, "archive")},
		{"log", "verify", "--archive", filepath.Join(dir, "archive")},
		{"replay", "--from-archive", filepath.Join(dir, "archive")},
		{"backup", "--to", filepath.Join(dir, "backup")},
		{"log", "compact", "--keep", strconv.FormatUint(last, 10), "--archive", filepath.Join(dir, "archive")},
	} {
		if !slices.Contains(args, "--from-archive") {
			args = append(args, "--nats", p.nats)
		}
		cmd := exec.CommandContext(p.t.Context(), p.bin, args...)
		cmd.Env = append(os.Environ(), append(p.env, "EDICT_SERVER=http://"+p.http)...)
		out, err := cmd.CombinedOutput()
		require.NoError(p.t, err, "edict %v: %s", args, out)
		p.t.Logf("edict %v is done", args)
	}
}

func peak(procs string) string {
	for _, file := range []string{"memory.max_usage_in_bytes", "memory.peak"} {
		if b, err := os.ReadFile(filepath.Join(filepath.Dir(procs), file)); err == nil {
			return strings.TrimSpace(string(b)) + " bytes, cached pages of files included"
		}
	}
	return "unknown"
}
