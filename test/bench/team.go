package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

const (
	teamStreams = 2_000
	teamAll     = 10 // events for every node, in each round
	teamOne     = 4  // events for each node alone
)

// natsCommand makes this binary a NATS server, in a process of its own.
const natsCommand = "plain-nats"

// serveNATS serves until the process is asked to end.
func serveNATS(readyFile string) error {
	server, err := streams.StartServer(streams.ServerOptions{Dir: filepath.Join(filepath.Dir(readyFile), "nats"), Listen: "127.0.0.1:0", Relaxed: true})
	if err != nil {
		return err
	}
	if err := writeReady(readyFile, ready{NATS: server.ClientURL()}); err != nil {
		return err
	}
	select {}
}

// writeReady has the file appear whole.
func writeReady(path string, r ready) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	half := path + ".half"
	if err := os.WriteFile(half, b, 0o600); err != nil {
		return err
	}
	return os.Rename(half, path)
}

// twoWorkers measures what it costs that two workers serve streams that one could:
// both fold all of the log, and neither serves twice. A NATS server of its own
// stands beside them. What the fold alone costs the second worker is measured with one
// that serves nobody: no more may be done twice.
func twoWorkers(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var both, one, beside, folding samples
	for round := range e.rounds() {
		for _, c := range []struct {
			name    string
			serving int
			idle    bool
			sum     *samples
		}{{"two", 2, false, &both}, {"one", 1, false, &one}, {"beside", 1, true, &beside}} {
			own := *e
			own.dir = filepath.Join(e.dir, fmt.Sprintf("%s-%d", c.name, round))
			if err := os.MkdirAll(own.dir, 0o700); err != nil {
				return nil, err
			}
			cpu, idle, err := teamOf(ctx, &own, c.serving, c.idle)
			e.binary = own.binary
			if err = errors.Join(err, removeAll(own.dir)); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			*c.sum = append(*c.sum, cpu)
			if c.idle {
				folding = append(folding, idle)
			}
		}
		say("  round %d: two workers %s core-s, one %s, one beside one that only folds %s, of which that takes %s",
			round+1, short(last(both)), short(last(one)), short(last(beside)), short(last(folding)))
	}
	l := figure("CPU in sum", "core-s", both).beside("one worker that serves all of them", one).ratioAtMost(1.15)
	l.note("%s streams in all, %d events for each node and %d for all; what the NATS server used is not in it", grouped(teamStreams), teamOne, teamAll)
	f := figure("CPU in sum", "core-s", both).beside("one worker that serves all of them, and one that only folds", beside).ratioAtMost(1.05)
	f.note("a worker that only folds uses %s core-s", short(folding.median()))
	return []line{*l, *f}, nil
}

// teamOf has so many workers serve the streams, and says what CPU they used in sum. idle:
// one more folds and serves nobody, and its part of the sum is folding.
func teamOf(ctx context.Context, e *env, serving int, idle bool) (cpu, folding float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	file := filepath.Join(e.dir, "nats.ready")
	server, err := start(ctx, e.dir, "nats", file, self, natsCommand, file)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := e.build(ctx); err != nil {
		return 0, 0, err
	}
	key := filepath.Join(e.dir, "signing.key")
	if _, err := artifact.CreateSigner(key); err != nil {
		return 0, 0, err
	}
	var team []*served
	defer func() {
		for _, s := range team {
			err = errors.Join(err, s.close())
		}
	}()
	for i := range serving {
		s, err := startWorker(ctx, e, server.nats, key, fmt.Sprintf("w%d", i))
		if err != nil {
			return 0, 0, err
		}
		team = append(team, s)
	}
	var alone []*served
	if idle {
		s, err := startWorker(ctx, e, server.nats, key, "idle", "--roles", "api")
		if err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		alone = append(alone, s)
	}
	return serveTogether(ctx, team, alone)
}

func startWorker(ctx context.Context, e *env, url, key, name string, flags ...string) (*served, error) {
	dir := filepath.Join(e.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "ready")
	argv := append([]string{
		e.binary, "serve", "--data", filepath.Join(dir, "data"), "--ready-file", file,
		"--http", "127.0.0.1:0", "--nats", url, "--name", name, "--signing-key", key,
	}, flags...)
	c, err := start(ctx, dir, name, file, argv...)
	if err != nil {
		return nil, err
	}
	c.nats = url
	s := &served{child: c, signingKey: key}
	return s, s.connect(ctx, "")
}

// serveTogether has each worker serve its share of the streams, beside one that serves
// nobody or none.
func serveTogether(ctx context.Context, team, idle []*served) (cpu, folding float64, err error) {
	w := &stageWorld{a: newAuthor(12)}
	var events []policy.Event
	for i := range teamStreams {
		events = append(events, w.a.node(i, labelled("env", "prod", "host", string(nodeName(i)))))
	}
	if err := errors.Join(team[0].publish(ctx, events), settledAll(ctx, team), settledAll(ctx, idle)); err != nil {
		return 0, 0, err
	}
	var crowds []*crowd
	for i, s := range team {
		var paths []string
		for at := i; at < teamStreams; at += len(team) {
			paths = append(paths, "/v1/nodes/"+string(nodeName(at))+"/events")
		}
		c := newCrowd(s.addr, paths)
		c.accept = inRuns
		if err := c.connect(ctx, connectAtOnce, false); err != nil {
			return 0, 0, err
		}
		defer c.part()
		crowds = append(crowds, c)
	}
	before, err := cpuOf(team)
	if err != nil {
		return 0, 0, err
	}
	idleBefore, err := cpuOf(idle)
	if err != nil {
		return 0, 0, err
	}
	const share = teamStreams * teamOne / teamAll // of the events for one node, beside one for all
	for i := range teamAll {
		w.said++
		events := []policy.Event{w.a.revise(i, selecting("env=prod"), stageRules, w.said)}
		for at := i * share; at < (i+1)*share; at++ {
			w.said++
			events = append(events, w.a.revise(stagePolicies+at, selecting("host="+string(nodeName(at%teamStreams))), stageRules, w.said))
		}
		if err := team[0].publish(ctx, events); err != nil {
			return 0, 0, err
		}
	}
	for _, c := range crowds {
		if err := c.await(ctx, len(c.members)*(teamAll+teamOne)); err != nil {
			return 0, 0, err
		}
	}
	now, err := cpuOf(team)
	if err != nil {
		return 0, 0, err
	}
	if err := foldedAll(ctx, team[0].log, idle); err != nil {
		return 0, 0, err
	}
	idleNow, err := cpuOf(idle)
	if err != nil {
		return 0, 0, err
	}
	cpu, folding = now-before, idleNow-idleBefore
	for _, c := range crowds {
		c.part()
		for _, m := range c.members {
			if len(m.causes) != teamAll+teamOne || len(m.faults) > 0 {
				return 0, 0, fmt.Errorf("%s heard %d events, not %d: %v", m.path, len(m.causes), teamAll+teamOne, m.faults)
			}
		}
	}
	return cpu + folding, folding, nil
}

func settledAll(ctx context.Context, team []*served) error {
	for _, s := range team {
		if _, err := s.settled(ctx); err != nil {
			return err
		}
	}
	return nil
}

// foldedAll waits until a team's folds have reached the log's end. A status would take
// more of their CPU.
func foldedAll(ctx context.Context, log *streams.Log, team []*served) error {
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	for _, s := range team {
		if err := s.folded(ctx, nodeName(0), head); err != nil {
			return err
		}
	}
	return nil
}

func cpuOf(team []*served) (sum float64, err error) {
	for _, s := range team {
		used, err := s.cpuSeconds()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}
