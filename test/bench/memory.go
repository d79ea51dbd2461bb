package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/edictdev/edict/policy"
)

// memoryRest is how long the process is left alone before it is measured: the
// embedded server keeps blocks in memory for ten seconds, compaction goes on
// for some, and then serve gives back what is left over.
const memoryRest = 45 * time.Second

// memory measures the whole process, log, store and API, that
// holds a fleet in which every node matches three policies.
func memory(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	s, err := serveEdict(ctx, e)
	if err != nil {
		return nil, err
	}
	lines, err := memoryOf(ctx, e, s)
	return lines, errors.Join(err, s.close())
}

func memoryOf(ctx context.Context, e *env, s *served) ([]line, error) {
	empty, _, err := s.resident()
	if err != nil {
		return nil, err
	}
	h := newHistory(e.scale(foldNodes))
	const chunk = 10_000
	began := time.Now()
	for total := h.apps*foldEach + h.all; h.n < total; {
		var events []policy.Event
		for range min(chunk, total-h.n) {
			events = append(events, h.next())
		}
		if err := s.publish(ctx, events); err != nil {
			return nil, err
		}
	}
	st, err := s.settled(ctx)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	if err := checkFleet(ctx, s, st, h); err != nil {
		return nil, err
	}
	busy, _, err := s.resident()
	if err != nil {
		return nil, err
	}
	time.Sleep(memoryRest)
	rest, peak, err := s.resident()
	if err != nil {
		return nil, err
	}
	const mib = 1 << 20
	say("  %s MiB at rest, %s MiB at most", short(rest/mib), short(peak/mib))
	l := figure("", "MiB", samples{rest / mib}).beside("the same process with an empty plane", samples{empty / mib}).atMost(450)
	l.note("%s nodes, %d policies, %s rows; %s MiB when the last was folded, %s MiB at most; everything folded after %s s",
		grouped(int64(len(h.app))), h.apps*foldEach, grouped(int64(h.rows())), short(busy/mib), short(peak/mib), short(took.Seconds()))
	heap, err := goMetrics(ctx, s.child)
	if err != nil {
		return nil, err
	}
	l.note("of it the Go heap: %s MiB live or not yet collected, %s MiB collected and kept; stacks %s MiB; the rest is the store's cache and memtables, and the binary",
		short(heap["go_memstats_heap_alloc_bytes"]/mib), short((heap["go_memstats_heap_idle_bytes"]-heap["go_memstats_heap_released_bytes"])/mib),
		short(heap["go_memstats_stack_inuse_bytes"]/mib))
	return []line{*l}, nil
}

// goMetrics are what the process tells of its own Go runtime, memory in bytes, of
// tables, and how many streams are open.
func goMetrics(ctx context.Context, c *child) (map[string]float64, error) {
	resp, err := c.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && (strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "edict_datapath_") || name == openStreams) {
			values[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	values[liveMemory] = values["go_memstats_heap_alloc_bytes"] + values["go_memstats_stack_inuse_bytes"]
	return values, nil
}

// checkFleet wants every node, every policy, and of some nodes every row.
func checkFleet(ctx context.Context, s *served, st status, h *history) error {
	if st.Nodes != len(h.app) || st.Policies != h.apps*foldEach {
		return fmt.Errorf("the plane has %d nodes and %d policies, not %d and %d", st.Nodes, st.Policies, len(h.app), h.apps*foldEach)
	}
	return s.rows(ctx, len(h.app), foldEach)
}

// rows wants some nodes of n, far apart, to have so many rows each.
func (s *served) rows(ctx context.Context, n, each int) error {
	for i := 0; i < n; i += max(1, n/97) {
		var sets struct {
			Items []json.RawMessage `json:"items"`
		}
		if err := s.getJSON(ctx, "/v1/nodes/"+string(nodeName(i))+"/rulesets", &sets); err != nil {
			return err
		}
		if len(sets.Items) != each {
			return fmt.Errorf("node %s has %d rows, not %d", nodeName(i), len(sets.Items), each)
		}
	}
	return nil
}
