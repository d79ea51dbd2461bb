package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edictdev/edict/policy"
)

// A plane that lives long: what there is stays as much as it was, and its nodes and policies
// change, come and go all the time.
const (
	soakEvents   = 2_000_000
	soakNodes    = 2_000 // that live
	soakPolicies = 32    // likewise
	soakRules    = 8
	soakLabels   = 4 // values of each of two keys
	soakRest     = 30 * time.Second
	// soakPast bounds what is kept of the past, so that it is full long before the middle.
	soakPast = "32MiB"
)

// soak measures what a plane holds near the start of its life, in the middle and at the end,
// and how soon it is ready again after a kill -9. What is flat at the end is as it was in the
// middle.
func soak(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	events := e.scale(soakEvents)
	w := newSoakWorld()
	flags := []string{"--durability", "relaxed", "--past-bytes", soakPast}
	s, err := serveEdict(ctx, e, flags...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var seen []soaked
	for _, until := range []int{events / 20, events / 2, events} {
		began := time.Now()
		if err := w.live(ctx, s, until); err != nil {
			return nil, err
		}
		took := time.Since(began)
		next, at, err := soakLook(ctx, e, s, until, flags)
		if s = next; err != nil {
			return nil, err
		}
		say("  %s events, the last after %s s: log %s MiB, store %s MiB, resident %s MiB, %g descriptors, %g goroutines, ready again after %s s with %s MiB",
			grouped(int64(until)), short(took.Seconds()), short(at.log), short(at.store), short(at.resident), at.files, at.goroutines, short(at.restart), short(at.restarted))
		seen = append(seen, at)
	}
	return soakLines(seen), nil
}

// soaked is what a plane holds after so many events; sizes are in MiB.
type soaked struct {
	events              int
	log, store          float64 // on the disk
	resident, restarted float64 // at rest; after a restart
	files, goroutines   float64
	restart             float64 // seconds from a kill -9 to ready
}

func soakLines(seen []soaked) (lines []line) {
	start, middle, end := seen[0], seen[1], seen[2]
	add := func(what, unit string, of func(soaked) float64, most float64, remark string) {
		l := figure(what+" at the end", unit, samples{of(end)}).beside("in the middle", samples{of(middle)})
		if most > 0 {
			l.ratioAtMost(most)
		}
		lines = append(lines, *l.note("%s: %s after %s events, %s in the middle, %s at the end; %s", what, short(of(start)), grouped(int64(start.events)), short(of(middle)), short(of(end)), remark))
	}
	const slack = 1.25 // of the machine: when it collects garbage and compacts is chance
	perEvent := func(s soaked) float64 { return s.log * (1 << 20) / float64(s.events) }
	add("bytes of the log an event", "B", perEvent, slack, "the log has every event until it is compacted")
	add("the store", "MiB", func(s soaked) float64 { return s.store }, 0, "it has each id that was used, and each policy that is gone, for good; the past is bounded by --past-bytes "+soakPast)
	add("resident at rest", "MiB", func(s soaked) float64 { return s.resident }, slack, "the server's and the store's caches fill up first")
	add("resident after a restart", "MiB", func(s soaked) float64 { return s.restarted }, slack, "")
	add("descriptors", "", func(s soaked) float64 { return s.files }, slack, "one for each table of the store that is open")
	add("goroutines", "", func(s soaked) float64 { return s.goroutines }, slack, "")
	add("from a kill -9 to ready", "s", func(s soaked) float64 { return s.restart }, 0, "a start holds the newest GiB of the log against its checksums")
	return lines
}

// soakLook measures a plane at rest, kills it, and starts it again.
func soakLook(ctx context.Context, e *env, s *served, events int, flags []string) (next *served, at soaked, err error) {
	if _, err := s.settled(ctx); err != nil {
		return s, at, err
	}
	time.Sleep(soakRest)
	now, _, err := s.resident()
	if err != nil {
		return s, at, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		return s, at, err
	}
	metrics, err := goMetrics(ctx, s.child)
	if err != nil {
		return s, at, err
	}
	if err := s.heap(ctx, e.soakHeaps, fmt.Sprintf("rest-%d", events)); err != nil {
		return s, at, err
	}
	const mib = 1 << 20
	at = soaked{events: events, resident: now / mib, files: float64(len(open)), goroutines: metrics["go_goroutines"]}
	data := filepath.Join(e.dir, "data")
	if at.log, err = diskMiB(filepath.Join(data, "nats", "jetstream", "$G", "streams", "EDICT_LOG")); err != nil {
		return s, at, err
	}
	if at.store, err = diskMiB(filepath.Join(data, "store")); err != nil {
		return s, at, err
	}
	s.conn.Close()
	if err := s.cmd.Process.Kill(); err != nil {
		return s, at, err
	}
	<-s.exited
	if err := os.Remove(filepath.Join(e.dir, "edict.ready")); err != nil { // which it had no time for
		return s, at, err
	}
	began := time.Now()
	next, err = serveEdict(ctx, e, flags...)
	if err != nil {
		return s, at, err
	}
	at.restart = time.Since(began).Seconds()
	if now, _, err = next.resident(); err != nil {
		return next, at, err
	}
	at.restarted = now / mib
	return next, at, next.heap(ctx, e.soakHeaps, fmt.Sprintf("ready-%d", events))
}

// heap writes a profile of what holds the plane's memory into a directory; "": it does not.
func (s *served) heap(ctx context.Context, dir, name string) error {
	if dir == "" {
		return nil
	}
	resp, err := s.get(ctx, "/debug/pprof/heap")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.Create(filepath.Join(dir, name+".pprof"))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}

// diskMiB is what the files below a directory take.
func diskMiB(dir string) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += float64(info.Size()) / (1 << 20)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // compacted meanwhile
		return diskMiB(dir)
	}
	return sum, err
}

// soakWorld has nodes and policies that come and go, always as many.
type soakWorld struct {
	a               *author
	written         int
	nodes, policies []int // that live
	node, policy    int   // the next ones
}

func newSoakWorld() *soakWorld { return &soakWorld{a: newAuthor(21)} }

// live publishes events until there are so many.
func (w *soakWorld) live(ctx context.Context, s *served, until int) error {
	const chunk = 5_000
	for w.written < until {
		var events []policy.Event
		for len(events) < min(chunk, until-w.written) {
			events = append(events, w.next())
		}
		if err := s.publish(ctx, events); err != nil {
			return err
		}
		w.written += len(events)
	}
	return nil
}

// next is one event: of a hundred 80 give a node other labels, 9 remove a node, whose
// place a new one takes, 9 revise a policy, and 1 deletes one, likewise.
func (w *soakWorld) next() policy.Event {
	switch {
	case len(w.nodes) < soakNodes:
		w.nodes = append(w.nodes, w.node)
		w.node++
		return w.labelled(w.node - 1)
	case len(w.policies) < soakPolicies:
		w.policies = append(w.policies, w.policy)
		w.policy++
		return w.revise(w.policy - 1)
	}
	some := w.a.r.IntN(len(w.nodes))
	switch n := w.a.r.IntN(100); {
	case n < 81:
		return w.labelled(w.nodes[some])
	case n < 90:
		gone := w.nodes[some]
		w.nodes = slices.Delete(w.nodes, some, some+1)
		return policy.NodeRemoved{ID: w.a.id(), Project: project, Node: nodeName(gone)}
	case n < 99:
		return w.revise(w.policies[w.a.r.IntN(len(w.policies))])
	}
	gone := w.policies[0]
	w.policies = w.policies[1:]
	delete(w.a.heads, policyID(gone))
	return policy.PolicyDeleted{ID: w.a.id(), Project: project, Policy: policyID(gone)}
}

func (w *soakWorld) revise(i int) policy.Event {
	return w.a.revise(i, selecting(fmt.Sprintf("k%d=v%d", i%2, i%soakLabels)), soakRules, w.written+i)
}

func (w *soakWorld) labelled(i int) policy.Event {
	return w.a.node(i, labelled("k0", fmt.Sprintf("v%d", w.a.r.IntN(soakLabels)), "k1", fmt.Sprintf("v%d", w.a.r.IntN(soakLabels))))
}
