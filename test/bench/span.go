package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// spanCommand makes this binary fold one workload, in a process of its own.
const spanCommand = "span"

// span is what a child is to fold, and how.
type span struct {
	Workload string
	Shrink   int
	Mode     string
	Dir      string
	Seed     uint64
	Profile  string // file for a CPU profile
	Allocs   string // file for a profile of allocations
}

// spanned is what the child reports.
type spanned struct {
	Wall     float64 // seconds
	User     float64 // seconds of user CPU, decoding included
	System   float64
	Heap     float64 // MiB live or not yet collected, when the last was folded
	Resident float64 // MiB, the most until then; input included
	Input    float64 // MiB of bodies
	Allocs   uint64
	Rows     int
	Digest   string // of every row, by names
}

const spanSeed = 4

// Modes of a span.
const (
	recorded = "from memory into Pebble in bulk, left to the operating system, no edges; decoded from JSON"
	rebuilt  = "from JetStream into Pebble in bulk, durable, no edges, as a first start does it; the server's part of the CPU included"
	live     = "from JetStream into Pebble as it follows the log, fsynced, with the edges; the server's part of the CPU included"
)

// measureSpan measures one workload in fresh processes.
func measureSpan(name, mode string, targets func(wall, user, resident *line)) func(context.Context, *env) ([]line, error) {
	return func(ctx context.Context, e *env) ([]line, error) {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
		defer cancel()
		s := span{Workload: name, Shrink: 1, Mode: mode, Seed: spanSeed}
		if e.quick {
			s.Shrink = 10
		}
		var w workload
		for _, x := range workloads(s.Shrink) {
			if x.name == name {
				w = x
			}
		}
		var wall, user, resident samples
		var last spanned
		for round := range e.rounds() {
			s.Dir = filepath.Join(e.dir, fmt.Sprint(round))
			s.Profile, s.Allocs = e.spanProfile, e.spanAllocs
			r, err := s.inChild(ctx)
			if err != nil {
				return nil, err
			}
			if r.Rows != w.rows {
				return nil, fmt.Errorf("%s: the fold made %d rows of %d", name, r.Rows, w.rows)
			}
			if round > 0 && r.Digest != last.Digest {
				return nil, fmt.Errorf("%s: the same log gave rows %s and then %s", name, last.Digest, r.Digest)
			}
			last = r
			wall, user, resident = append(wall, r.Wall), append(user, r.User), append(resident, r.Resident)
			say("  round %d: %s s, %s user-s, %s MiB resident, %s allocations", round+1, short(r.Wall), short(r.User), short(r.Resident), grouped(int64(r.Allocs)))
		}
		lw, lu, lr := figure("wall", "s", wall), figure("user CPU", "s", user), figure("resident at most", "MiB", resident)
		targets(lw, lu, lr)
		lw.note("%s: %s; %s policies, %s nodes, seed %d; %s rows, digest %s", w.what, mode,
			grouped(int64(w.policies)), grouped(int64(w.nodes)), s.Seed, grouped(int64(last.Rows)), last.Digest)
		lw.note("%s MiB of heap after the last event, %s MiB resident at most with %s MiB of events in memory; %s allocations; %s s of system CPU",
			short(last.Heap), short(last.Resident), short(last.Input), grouped(int64(last.Allocs)), short(last.System))
		return []line{*lw, *lu, *lr}, nil
	}
}

// inChild runs this binary again.
func (s *span) inChild(ctx context.Context) (r spanned, err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return r, err
	}
	spec, err := json.Marshal(s)
	if err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, self, spanCommand, string(spec))
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &complaint, plainEnvironment()
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%s: %w: %s", s.Workload, err, bytes.TrimSpace(complaint.Bytes()))
	}
	return r, errors.Join(json.Unmarshal(out.Bytes(), &r), removeAll(s.Dir))
}

// spanChild is what the child does.
func spanChild(spec string) error {
	var s span
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	i := slices.IndexFunc(workloads(s.Shrink), func(w workload) bool { return w.name == s.Workload })
	if i < 0 {
		return fmt.Errorf("no workload is called %q", s.Workload)
	}
	w := workloads(s.Shrink)[i]
	run := s.inFull
	if s.Mode == recorded {
		run = s.recorded
	}
	r, err := run(context.Background(), &w)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func (s *span) recorded(ctx context.Context, w *workload) (r spanned, err error) {
	t, err := record(w, s.Seed)
	if err != nil {
		return r, err
	}
	debug.FreeOSMemory()
	r.Input = float64(t.room.used) / (1 << 20)
	p, err := projector.Open(filepath.Join(s.Dir, "store"), projector.Options{Partitions: partitions, Created: t.at})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	err = s.time(&r, func() error { return p.Rebuild(ctx, t, uint64(len(t.room.msgs))) })
	if err == nil {
		r.Rows, r.Digest, err = digestRows(w, store{p})
	}
	return r, err
}

// inFull writes the log first, which is not timed.
func (s *span) inFull(ctx context.Context, w *workload) (r spanned, err error) {
	k, err := openRig(ctx, s.Dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	const chunk = 10_000
	var events []policy.Event
	for e := range w.shuffled(s.Seed) {
		if events = append(events, e); len(events) == chunk {
			if _, err := k.publish(ctx, events); err != nil {
				return r, err
			}
			events = events[:0]
		}
	}
	if _, err := k.publish(ctx, events); err != nil {
		return r, err
	}
	state, err := k.log.State(ctx)
	if err != nil {
		return r, err
	}
	if state.Messages != uint64(w.policies+w.nodes) {
		return r, fmt.Errorf("the log holds %d events of %d", state.Messages, w.policies+w.nodes)
	}
	p, err := projector.Open(filepath.Join(s.Dir, "store"), k.options())
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	debug.FreeOSMemory()
	work := func() error { return foldAll(ctx, p, k.log, state.Last) }
	if s.Mode == rebuilt {
		work = func() error { return p.Rebuild(ctx, k.log, state.Last) }
	}
	if err := s.time(&r, work); err != nil {
		return r, err
	}
	r.Rows, r.Digest, err = digestRows(w, store{p})
	return r, err
}

// foldAll folds a log up to last.
func foldAll(ctx context.Context, f *projector.Projector, log projector.Log, last uint64) error {
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- f.Run(run, log)
		cancel()
	}()
	err := f.Wait(run, last)
	cancel()
	if stopped := <-ended; stopped != nil {
		return stopped
	}
	return err
}

// time measures what work costs this process.
func (s *span) time(r *spanned, work func() error) error {
	stop, err := s.profiles()
	if err != nil {
		return err
	}
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		return err
	}
	_, allocs := heapNow()
	began := time.Now()
	err = work()
	r.Wall = time.Since(began).Seconds()
	if err := errors.Join(err, syscall.Getrusage(syscall.RUSAGE_SELF, &after), stop()); err != nil {
		return err
	}
	r.User = time.Duration(after.Utime.Nano() - before.Utime.Nano()).Seconds()
	r.System = time.Duration(after.Stime.Nano() - before.Stime.Nano()).Seconds()
	// What rusage has is, of a process that starts small, what its parent had.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("resident memory is read from /proc: %w", err)
	}
	most, err := statusBytes(string(status), "VmHWM")
	if err != nil {
		return err
	}
	r.Resident = most / (1 << 20)
	heap, made := heapNow()
	r.Heap, r.Allocs = float64(heap)/(1<<20), made-allocs
	return nil
}

func (s *span) profiles() (stop func() error, err error) {
	var cpu *os.File
	if s.Profile != "" {
		if cpu, err = os.Create(s.Profile); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, err
		}
	}
	return func() error {
		if cpu != nil {
			pprof.StopCPUProfile()
			if err := cpu.Close(); err != nil {
				return err
			}
		}
		if s.Allocs == "" {
			return nil
		}
		runtime.GC() // the profile stands as of the last collection
		f, err := os.Create(s.Allocs)
		if err != nil {
			return err
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
	}, nil
}

func heapNow() (bytes, allocs uint64) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/allocs:objects"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// store asks a projector.
type store struct{ *projector.Projector }

func (s store) Generation(id policy.NodeID) (identity uint32, generation uint64, ok bool) {
	s.Read(func(v *projector.View) { identity, generation, ok = v.Generation(id) })
	return identity, generation, ok
}

func (s store) Rows(id policy.NodeID) (r projector.Rows, ok bool) {
	s.Read(func(v *projector.View) { r, ok = v.Rows(id) })
	return r, ok
}

// digestRows counts and hashes every row of every node: an early stop, or a row
// too many, shows. Nodes with the same label set share the hash of their rows.
func digestRows(w *workload, f store) (n int, digest string, err error) {
	type sum struct {
		rows int
		hash [32]byte
	}
	seen := map[uint32]sum{}
	all := sha256.New()
	for i := range w.nodes {
		identity, _, ok := f.Generation(nodeName(i))
		if !ok {
			return n, "", fmt.Errorf("node %s is missing", nodeName(i))
		}
		s, ok := seen[identity]
		if !ok {
			r, _ := f.Rows(nodeName(i))
			h := sha256.New()
			for _, row := range r.Rows {
				h.Write(row.Policy[:])
				h.Write(row.Revision[:])
				h.Write(row.Fingerprint[:])
			}
			s = sum{len(r.Rows), [32]byte(h.Sum(nil))}
			seen[identity] = s
		}
		n += s.rows
		all.Write([]byte(nodeName(i)))
		all.Write(s.hash[:])
	}
	return n, fmt.Sprintf("%x", all.Sum(nil)[:8]), nil
}
