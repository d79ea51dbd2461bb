package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/edictdev/edict/policy"
)

const (
	wordsNodes  = 100
	wordsGroups = 10 // of addresses, with a policy about each
)

// tableWords measures how many of the words about tables that nodes hear when
// they come back were needless: the project is busy, and a node's table is made
// of some of it alone. Readers enforce tables, and say so.
func tableWords(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	s, err := serveEdict(ctx, e, "--durability", "relaxed")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	w := &wordsWorld{followers: followers{s: s, a: newAuthor(15), mark: wordsGroups}}
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	for _, away := range []int{1, 3} {
		var words, needless samples
		for range e.rounds() {
			n, vain, err := w.round(ctx, away)
			if err != nil {
				return nil, err
			}
			words, needless = append(words, 100*float64(n)/wordsNodes), append(needless, 100*float64(vain)/float64(max(n, 1)))
		}
		l := figure(fmt.Sprintf("needless, events missed: %d", away), "%", needless)
		lines = append(lines, *l.note("%d nodes in %d groups of addresses, one policy for each group; each event gives one node another address; %s words for 100 nodes",
			wordsNodes, wordsGroups, short(words.median())))
	}
	return lines, nil
}

// wordsWorld is nodes in groups, and of each policy a tenth of the groups.
type wordsWorld struct {
	followers
	turn int
	at   [wordsNodes]int // the last number of a node's address
}

func (w *wordsWorld) begin(ctx context.Context) error {
	var events []policy.Event
	for g := range wordsGroups {
		ev := w.a.revise(g, selecting(fmt.Sprintf("group=g%d", g)), 1, g)
		ev.Revision.Rules[0].Source = netip.MustParsePrefix("10.0.0.0/8")
		ev.Revision.Rules[0].Destination = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(g), 0, 0}), 16)
		events = append(events, ev)
	}
	for i := range wordsNodes {
		events = append(events, w.node(i))
		w.all = append(w.all, newFollower(w.s, nodeName(i), inRuns+";tables=true"))
	}
	if err := w.s.publish(ctx, events); err != nil {
		return err
	}
	if _, err := w.marked(ctx); err != nil {
		return err
	}
	_, err := w.meet(ctx)
	return err
}

// node is one, at its address: its group's, in which its policy's peers are.
func (w *wordsWorld) node(i int) policy.Event {
	g := i % wordsGroups
	ev := w.a.node(i, labelled("env", "prod", "group", fmt.Sprintf("g%d", g)))
	ev.Addresses = policy.Addresses{netip.AddrFrom4([4]byte{10, byte(g), byte(w.at[i]), byte(i)})}
	return ev
}

// round lets events pass while nobody is connected.
func (w *wordsWorld) round(ctx context.Context, away int) (words, needless int, err error) {
	before, err := w.tables(ctx)
	if err != nil {
		return 0, 0, err
	}
	var events []policy.Event
	for range away {
		w.turn++
		i := w.turn * 37 % wordsNodes
		w.at[i]++
		events = append(events, w.node(i))
	}
	if err := w.s.publish(ctx, events); err != nil {
		return 0, 0, err
	}
	if _, err := w.s.settled(ctx); err != nil {
		return 0, 0, err
	}
	after, err := w.tables(ctx)
	if err != nil {
		return 0, 0, err
	}
	changed := 0
	for i := range after {
		if after[i] != before[i] {
			changed++
		}
	}
	h, err := w.meet(ctx)
	if err == nil && h.words < changed {
		err = fmt.Errorf("%d tables changed, and %d messages announced it", changed, h.words)
	}
	return h.words, h.words - changed, err
}

// tables are the fingerprints of all nodes' tables.
func (w *wordsWorld) tables(ctx context.Context) (all []string, err error) {
	for i := range wordsNodes {
		var table struct {
			Fingerprint string `json:"fingerprint"`
		}
		if err := w.s.getJSON(ctx, "/v1/nodes/"+string(nodeName(i))+"/datapath", &table); err != nil {
			return nil, err
		}
		all = append(all, table.Fingerprint)
	}
	return all, nil
}
