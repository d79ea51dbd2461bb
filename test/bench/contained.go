package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// The project whose tables are as much work as its own policies may make them.
const (
	heavyPolicies = 52
	heavyRules    = 1024
	heavyNodes    = 30
	heavyAgents   = 12
	heavyPatience = 10 * time.Second       // of an agent
	heavyMoves    = 200 * time.Millisecond // between changes of a node of its own: no table stays in memory
)

const (
	neighbourWrites = 400
	neighbourPace   = 25 * time.Millisecond
)

// neighbour is another project on the same plane.
var neighbour = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// contained measures how long a project's write takes while another project's
// agents ask for tables all the time, strict. The floor is the same writes to the
// same plane while nobody asks. Phases take turns, and a round is one of each.
func contained(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	s, err := serveEdict(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err = s.publish(ctx, heavyProject()); err == nil {
		_, err = s.settled(ctx)
	}
	if err != nil {
		return nil, err
	}
	n := &neighbourhood{s: s, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: heavyAgents}}}
	one, err := n.costs(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := n.writes(ctx, e.scale(neighbourWrites)); err != nil { // a warm-up
		return nil, err
	}
	var alone, beset [2]samples // p50 and p99
	var ratios [2]samples
	for range e.rounds() {
		without, err := n.writes(ctx, e.scale(neighbourWrites))
		if err != nil {
			return nil, err
		}
		with, err := n.beset(ctx, e.scale(neighbourWrites))
		if err != nil {
			return nil, err
		}
		for i, q := range []float64{0.5, 0.99} {
			alone[i], beset[i] = append(alone[i], without.at(q)), append(beset[i], with.at(q))
			ratios[i] = append(ratios[i], last(beset[i])/last(alone[i]))
		}
		say("  p50 %s ms, p99 %s ms; beside the agents %s and %s", short(last(alone[0])), short(last(alone[1])), short(last(beset[0])), short(last(beset[1])))
	}
	for i, name := range []string{"p50", "p99"} {
		l := figure("a neighbour's write, "+name, "ms", beset[i]).beside("the same without them", alone[i])
		l.Ratio = ratios[i].median() // of neighbours: the machine is not the same all the time
		lines = append(lines, *l)
	}
	lines[0].note("%d agents ask for tables of %d nodes under %d policies of %s rules, of which something changes every %s: %d answers; %g tables made, %g found to be too large, %g given up; CPU of the plane %s cores meanwhile; %s writes in each phase, one every %s",
		heavyAgents, heavyNodes, heavyPolicies, grouped(heavyRules), heavyMoves, n.answers.Load(), n.made, n.refused, n.cancelled, short(n.cpu/n.took.Seconds()), grouped(int64(e.scale(neighbourWrites))), neighbourPace)
	return append(lines, *figure("one question for such a table", "CPU s", one).atMost(1)), nil
}

// costs are what one question for a table takes of the cores, of several nodes, after a
// change of each.
func (n *neighbourhood) costs(ctx context.Context) (cpu samples, err error) {
	for i := range 5 {
		if err := n.put(ctx, project, nodeName(i)); err != nil {
			return nil, err
		}
		before, err := n.s.cpuSeconds()
		if err != nil {
			return nil, err
		}
		resp, err := n.client.Get(n.s.url("/v1/nodes/" + string(nodeName(i)) + "/datapath"))
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return nil, err
		}
		after, err := n.s.cpuSeconds()
		if err != nil {
			return nil, err
		}
		cpu = append(cpu, after-before)
		say("  one question for a table: %s, %s CPU s", resp.Status, short(last(cpu)))
	}
	return cpu, nil
}

// heavyProject is ordered policies that match all of its nodes; every other rule
// is for any peer, the others each for a block of its own.
func heavyProject() (events []policy.Event) {
	a := newAuthor(9)
	for i := range heavyNodes {
		events = append(events, a.node(i, labelled("role", "web")))
	}
	for i := range heavyPolicies {
		e := a.revise(i, selecting("role=web"), 1, i)
		e.Revision.Order = policy.Order{Priority: policy.Priority{N: uint32(i), Set: true}}
		e.Revision.Rules = make([]policy.Rule, heavyRules)
		for j := range e.Revision.Rules {
			n := i*heavyRules + j
			r := policy.Rule{
				Action: policy.Allow, Protocol: policy.TCP, Ports: policy.Ports{From: uint16(1 + n), To: uint16(5000 + n)},
				Source: netip.MustParsePrefix("0.0.0.0/0"), Destination: netip.MustParsePrefix("0.0.0.0/0"),
			}
			if j%2 == 0 {
				r.Destination = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 14), byte(n >> 6), byte(n << 2)}), 30)
			}
			e.Revision.Rules[j] = r
		}
		events = append(events, e)
	}
	return events
}

// neighbourhood is a plane with the two projects.
type neighbourhood struct {
	s      *served
	client *http.Client
	said   atomic.Int64

	answers                  atomic.Int64  // that agents got
	made, refused, cancelled float64       // tables
	cpu                      float64       // seconds of the plane, while agents asked
	took                     time.Duration // likewise
}

// writes are how long each of so many writes of the neighbour took, in ms.
func (n *neighbourhood) writes(ctx context.Context, count int) (late samples, err error) {
	return n.paced(ctx, neighbour, count)
}

// paced are how long each of so many writes of a project took, in ms.
func (n *neighbourhood) paced(ctx context.Context, of uuid.UUID, count int) (late samples, err error) {
	tick := time.NewTicker(neighbourPace)
	defer tick.Stop()
	for range count {
		<-tick.C
		began := time.Now()
		if err := n.put(ctx, of, "neighbour"); err != nil {
			return nil, err
		}
		late = append(late, float64(time.Since(began))/float64(time.Millisecond))
	}
	return late, nil
}

// put changes the address of a node.
func (n *neighbourhood) put(ctx context.Context, project uuid.UUID, node policy.NodeID) error {
	i := n.said.Add(1)
	body := fmt.Appendf(nil, `{"labels":{"role":"web"},"addresses":["10.77.%d.%d"]}`, i>>8&0xff, i&0xff)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, n.s.url(fmt.Sprintf("/v1/projects/%s/nodes/%s", project, node)), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := n.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("write node %s: %s", node, resp.Status)
	}
	return nil
}

// beset is writes while the agents ask.
func (n *neighbourhood) beset(ctx context.Context, count int) (late samples, err error) {
	before, err := goMetrics(ctx, n.s.child)
	if err != nil {
		return nil, err
	}
	asking, stop := context.WithCancel(ctx)
	var agents sync.WaitGroup
	for i := range heavyAgents {
		agents.Go(func() { n.ask(asking, nodeName(i%heavyNodes)) })
	}
	agents.Go(func() { n.move(asking) })
	began := time.Now()
	cpuBegan, err := n.s.cpuSeconds()
	if err == nil {
		late, err = n.writes(ctx, count)
	}
	cpuEnded, unread := n.s.cpuSeconds()
	n.cpu, n.took = n.cpu+cpuEnded-cpuBegan, n.took+time.Since(began)
	stop()
	agents.Wait()
	after, unseen := goMetrics(ctx, n.s.child)
	if err = errors.Join(err, unread, unseen); err != nil {
		return nil, err
	}
	if n.add(before, after) == 0 {
		return nil, errors.New("no table was made: the agents besieged nobody")
	}
	return late, nil
}

// add counts what became of tables between two looks.
func (n *neighbourhood) add(before, after map[string]float64) (all float64) {
	for outcome, count := range map[string]*float64{"computed": &n.made, "refused": &n.refused, "cancelled": &n.cancelled} {
		name := fmt.Sprintf("edict_datapath_tables_total{outcome=%q}", outcome)
		*count += after[name] - before[name]
		all += after[name] - before[name]
	}
	return all
}

// ask asks for a node's table again and again, and gives up as agents do.
func (n *neighbourhood) ask(ctx context.Context, node policy.NodeID) {
	for ctx.Err() == nil {
		patient, cancel := context.WithTimeout(ctx, heavyPatience)
		if resp, err := n.s.get(patient, "/v1/nodes/"+string(node)+"/datapath"); err == nil {
			if _, err := io.Copy(io.Discard, resp.Body); err == nil {
				n.answers.Add(1)
			}
			resp.Body.Close()
		}
		cancel()
	}
}

// move changes a node of the project whose tables are asked for.
func (n *neighbourhood) move(ctx context.Context) {
	tick := time.NewTicker(heavyMoves)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			_ = n.put(ctx, project, nodeName(heavyNodes-1)) // one that fails is one less
		case <-ctx.Done():
		}
	}
}
