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
	maxFleet      = 10 // seconds until every node is sent all of them
	fleetMemory   = 200
)

// fleet measures a plane that comes to life: a fleet is registered, ten policies
// for all of it are published, and a listener over NATS hears every row. Then what
// the process holds, and what the server has on its disk.
func fleet(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	var took, resident, peak, disk samples
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
		resident, streams = samples{f.resident}, f.streams
		say("  round %d: sent after %s s, %s MiB resident, %s at most, %s MiB on disk", round+1, short(f.took), short(f.resident), short(f.peak), short(f.disk))
	}
	rows := int64(e.scale(sentNodes) * fleetPolicies)
	l := figure("told", "s", took).atMost(maxFleet)
	l.note("%s nodes of %d label sets, %d policies of %d rules, %s rows, strict and signed; from the first policy's publication until the listener has the last message",
		grouped(int64(e.scale(sentNodes))), sentSets, fleetPolicies, sentRules, grouped(rows))
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
	return []line{*l, *r, *d}, nil
}

// fleetFigures are what one such plane showed.
type fleetFigures struct {
	took, resident, peak, disk float64 // s and MiB
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
	began := time.Now()
	if err := s.publish(ctx, events); err != nil {
		return f, err
	}
	if err := ear.await(ctx, nodes*fleetPolicies); err != nil {
		return f, err
	}
	f.took = time.Since(began).Seconds()
	if _, err := s.settled(ctx); err != nil {
		return f, err
	}
	if rest {
		time.Sleep(memoryRest)
	}
	const mib = 1 << 20
	now, most, err := s.resident()
	if err != nil {
		return f, err
	}
	f.resident, f.peak = now/mib, most/mib
	f.streams, err = natsDisk(filepath.Join(e.dir, "data"))
	for _, m := range f.streams {
		f.disk += m
	}
	return f, err
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
