package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

const (
	workersNodes     = 20_000
	workersRevisions = 3 // of a policy that every node matches, in each round
	workersRules     = 20
)

// workers measures how announcing divides: the same revisions announced by one
// process and by several that share the partitions, all beside one server. On
// a machine of few cores they cannot be faster; what must show is that the work
// is shared out and that nothing is lost by sharing.
func workers(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	s, err := serveEdict(ctx, e, "--roles", "api", "--durability", "relaxed")
	if err != nil {
		return nil, err
	}
	lines, err := workersOn(ctx, e, s)
	return lines, errors.Join(err, s.close())
}

func workersOn(ctx context.Context, e *env, s *served) (lines []line, err error) {
	a, nodes := newAuthor(8), e.scale(workersNodes)
	events := []policy.Event{a.revise(0, selecting("env=prod"), workersRules, 0)}
	for i := range nodes {
		events = append(events, a.node(i, labelled("env", "prod")))
	}
	if err := s.publish(ctx, events); err != nil {
		return nil, err
	}
	var alone *line
	for _, n := range []int{1, 2, 4} {
		l, err := workersAt(ctx, e, s, a, nodes, n)
		if err != nil {
			return lines, fmt.Errorf("%d workers: %w", n, err)
		}
		if alone == nil {
			alone = l
		} else {
			l.beside("one worker", alone.Samples).ratioAtLeast(1)
		}
		lines = append(lines, *l)
	}
	return lines, nil
}

// workersAt starts n workers, has them take their partitions, and times them.
func workersAt(ctx context.Context, e *env, s *served, a *author, nodes, n int) (l *line, err error) {
	var team []*child
	defer func() {
		for _, c := range team {
			err = errors.Join(err, c.stop())
		}
	}()
	for i := range n {
		c, err := startWorker(ctx, e, s, i, n)
		if err != nil {
			return nil, err
		}
		team = append(team, c)
	}
	if _, err := s.settled(ctx); err != nil {
		return nil, err
	}
	var rate samples
	used := make([]float64, 1+n)
	for round := range e.rounds() {
		before := append([]float64{s.cpu()}, cpuOf(team)...)
		told, err := s.told(ctx)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		for i := range workersRevisions {
			if err := s.publish(ctx, []policy.Event{a.revise(0, selecting("env=prod"), workersRules, 1+3*round+i+100*n)}); err != nil {
				return nil, err
			}
		}
		if _, err := s.settled(ctx); err != nil {
			return nil, err
		}
		rate.rate(nodes*workersRevisions, time.Since(began))
		for i, now := range append([]float64{s.cpu()}, cpuOf(team)...) {
			used[i] += now - before[i]
		}
		now, err := s.told(ctx)
		if err != nil {
			return nil, err
		}
		if now-told < uint64(nodes*workersRevisions) {
			return nil, fmt.Errorf("%d messages went to the node stream, fewer than %d announcements", now-told, nodes*workersRevisions)
		}
		if err := announced(ctx, s, nodes); err != nil {
			return nil, err
		}
		say("  %d workers, round %d: %s announcements/s", n, round+1, short(rate[round]))
	}
	what := "1 worker"
	if n > 1 {
		what = fmt.Sprintf("%d workers", n)
	}
	l = figure(what, "announcements/s", rate)
	return l.note("%s: %s", what, shares(used)), nil
}

// shares tells who used how much of the CPU; the server comes first.
func shares(used []float64) string {
	total := 0.0
	for _, u := range used {
		total += u
	}
	texts := make([]string, len(used))
	for i, u := range used {
		who := "worker " + strconv.Itoa(i)
		if i == 0 {
			who = "the server, with a fold of its own"
		}
		texts[i] = fmt.Sprintf("%s %.1f s (%.0f %%)", who, u, 100*u/max(total, 1e-9))
	}
	return "CPU: " + strings.Join(texts, ", ")
}

func startWorker(ctx context.Context, e *env, s *served, i, n int) (*child, error) {
	const all = partitions
	name := fmt.Sprintf("w%d-of-%d", i, n)
	dir := filepath.Join(e.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "ready")
	return start(ctx, dir, name, file, e.binary, "serve", "--data", filepath.Join(dir, "data"), "--ready-file", file,
		"--nats", s.nats, "--name", name, "--roles", "relay",
		"--signing-key", filepath.Join(e.dir, "data", "signing.key"),
		"--partitions", fmt.Sprintf("%d-%d", i*all/n, (i+1)*all/n-1))
}

// told is the last sequence of the node stream.
func (s *served) told(ctx context.Context) (uint64, error) {
	n, _, err := streams.OpenNodes(ctx, s.conn, streams.NodesOptions{LogID: s.log.ID()})
	if err != nil {
		return 0, err
	}
	state, err := n.State(ctx)
	return state.Last, err
}

// cpu is what the process has used so far, in seconds; 0 where /proc does not
// tell.
func (c *child) cpu() float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	const user, system, perSecond = 11, 12, 100
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseFloat(fields[user], 64)
	v, _ := strconv.ParseFloat(fields[system], 64)
	return (u + v) / perSecond
}

func cpuOf(team []*child) (used []float64) {
	for _, c := range team {
		used = append(used, c.cpu())
	}
	return used
}
