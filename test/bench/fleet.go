package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edictdev/edict/policy"
)

const (
	fleetPolicies = 10 // that every node matches
	// maxFleet is how long it may take until every node is sent all of them, beside the
	// same messages published plainly: as much as one revision may (sentNATS).
	maxFleet    = 1 / 0.7
	fleetMemory = 200
)

// fleet measures a plane that comes to life: a fleet is registered, ten policies
// for all of it are published, and a listener over NATS hears every row. Then what
// the process holds, and what the server has on its disk. The floor is the plain
// publisher of sentNATS, which publishes the messages of one policy as often.
func fleet(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	var took, plain, cpu, plainCPU, resident, peak, disk samples
	var streams map[string]float64
	for round := range e.rounds() {
		own := *e
		own.dir = filepath.Join(e.dir, fmt.Sprint(round))
		f, err := fleetOnce(ctx, &own, round == e.rounds()-1)
		e.binary = own.binary
		if err = errors.Join(err, removeAll(own.dir)); err != nil {
			return nil, err
		}
		took, peak, disk = append(took, f.took), append(peak, f.peak), append(disk, f.disk)
		plain, cpu, plainCPU = append(plain, f.plain), append(cpu, f.cpu), append(plainCPU, f.plainCPU)
		resident, streams = samples{f.resident}, f.streams
		say("  round %d: sent after %s s, plainly %s s; CPU %s s, plainly %s s; %s MiB resident, %s at most, %s MiB on disk", round+1, short(f.took), short(f.plain), short(f.cpu), short(f.plainCPU), short(f.resident), short(f.peak), short(f.disk))
	}
	rows := int64(e.scale(sentNodes) * fleetPolicies)
	const floor = "the same bytes published plainly, unsigned, to the same listener"
	l := figure("told", "s", took).beside(floor, plain).ratioAtMost(maxFleet)
	l.note("10 s was the target on the machine of the prototype, where a plain publisher uses 7 core-seconds")
	l.note("%s nodes of %d label sets, %d policies of %d rules, %s rows, strict and signed; from the first policy's publication until the listener has the last message",
		grouped(int64(e.scale(sentNodes))), sentSets, fleetPolicies, sentRules, grouped(rows))
	c := figure("CPU", "core-s", cpu).beside(floor+": the server's part included", plainCPU).ratioAtMost(maxPlainCPU)
	r := figure("resident", "MiB", resident).atMost(fleetMemory)
	r.note("%s after the last message; %s MiB at most, while it sent", memoryRest, short(peak.median()))
	d := figure("on the disk of NATS", "MiB", disk)
	var names []string
	others := 0.0
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		names = append(names, name+" "+short(streams[name]))
		if name != "EDICT_LOG" {
			others += streams[name]
		}
	}
	d.target("the log alone", others <= 0.02*d.Value)
	d.note("MiB by stream: %s", strings.Join(names, ", "))
	return []line{*l, *c, *r, *d}, nil
}

// fleetFigures are what one such plane showed.
type fleetFigures struct {
	took, plain, cpu, plainCPU float64 // s
	resident, peak, disk       float64 // MiB
	streams                    map[string]float64
}

func fleetOnce(ctx context.Context, e *env, rest bool) (f fleetFigures, err error) {
	s, err := serveEdict(ctx, e)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	a, nodes := newAuthor(1), e.scale(sentNodes)
	if err := registerFleet(ctx, s, a, nodes); err != nil {
		return f, err
	}
	if _, err := s.settled(ctx); err != nil {
		return f, err
	}
	ear, err := listen(s.nats, allNodes)
	if err != nil {
		return f, err
	}
	defer ear.close()
	var events []policy.Event
	for i := range fleetPolicies {
		events = append(events, a.revise(i, selecting("env=prod"), sentRules, i))
	}
	used, err := s.cpuSeconds()
	if err != nil {
		return f, err
	}
	began := time.Now()
	if err := s.publish(ctx, events); err != nil {
		return f, err
	}
	if err := ear.await(ctx, nodes*fleetPolicies); err != nil {
		return f, err
	}
	f.took = time.Since(began).Seconds()
	now, err := s.cpuSeconds()
	if err != nil {
		return f, err
	}
	f.cpu = now - used
	if _, err := s.settled(ctx); err != nil {
		return f, err
	}
	if rest {
		time.Sleep(memoryRest)
	}
	const mib = 1 << 20
	held, most, err := s.resident()
	if err != nil {
		return f, err
	}
	f.resident, f.peak = held/mib, most/mib
	if f.streams, err = natsDisk(filepath.Join(e.dir, "data")); err != nil {
		return f, err
	}
	for _, m := range f.streams {
		f.disk += m
	}
	return f, f.besidePlain(ctx, e, &telling{s: s, a: a, nodes: nodes, ear: ear, said: fleetPolicies})
}

// besidePlain publishes what one more revision sends plainly, as often as there are
// policies.
func (f *fleetFigures) besidePlain(ctx context.Context, e *env, t *telling) (err error) {
	if err := t.first(ctx); err != nil {
		return err
	}
	defer t.same.free()
	file := filepath.Join(e.dir, "messages")
	if err := t.same.write(file); err != nil {
		return err
	}
	p, err := startPublisher(ctx, e.dir, "plain", file, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for range fleetPolicies {
		took, cpu, err := p.publish(ctx, t.nodes)
		if err != nil {
			return err
		}
		f.plain += took.Seconds()
		f.plainCPU += cpu
	}
	return nil
}

// natsDisk is what each stream has on the disk, in MiB, below a data directory.
func natsDisk(dir string) (map[string]float64, error) {
	out := map[string]float64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		_, rest, ok := strings.Cut(filepath.ToSlash(path), "/streams/")
		if !ok {
			return nil
		}
		name, _, _ := strings.Cut(rest, "/")
		info, err := d.Info()
		if err == nil {
			out[name] += float64(info.Size()) / (1 << 20)
		}
		return err
	})
	return out, err
}
