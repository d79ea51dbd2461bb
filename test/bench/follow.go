package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/edictdev/edict/policy"
)

// follower is a client that knows the rows it was sent.
type follower struct {
	s      *served
	node   policy.NodeID
	accept string
	last   uint64
	rows   map[string]string // fingerprint by policy; a row that is gone has none

	body   io.Closer
	frames *bufio.Reader
}

// heard is what one connection sent.
type heard struct {
	rows  int // that were sent
	had   int // of them, that the client knew as they are
	words int // about the table alone
}

// frame is one event of a stream.
type frame struct {
	id      uint64
	event   string
	payload struct {
		Policy      string            `json:"policy_id"`
		Fingerprint string            `json:"fingerprint"`
		Rules       []json.RawMessage `json:"rules"`
		Reason      string            `json:"reason"`
	}
}

func newFollower(s *served, node policy.NodeID, accept string) *follower {
	return &follower{s: s, node: node, accept: accept, last: 1, rows: map[string]string{}}
}

// open goes on after the last event; at first, from before everything.
func (f *follower) open(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.s.url("/v1/nodes/"+string(f.node)+"/events"), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", f.accept)
	req.Header.Set("Last-Event-ID", strconv.FormatUint(f.last, 10))
	t := &http.Transport{DisableKeepAlives: true}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return fmt.Errorf("GET events of %s: %s", f.node, resp.Status)
	}
	f.body, f.frames = resp.Body, bufio.NewReader(resp.Body)
	return nil
}

func (f *follower) close() error {
	if f.body == nil {
		return nil
	}
	defer func() { f.body = nil }()
	return f.body.Close()
}

// until reads up to the row whose id has a place.
func (f *follower) until(place uint64) (h heard, err error) {
	for {
		x, err := f.next()
		if err != nil {
			return h, err
		}
		f.last = x.id
		switch {
		case x.event == "node_state_updated" && x.payload.Reason == "datapath":
			h.words++
		case x.event == "policy_updated":
			now := x.payload.Fingerprint
			if len(x.payload.Rules) == 0 {
				now = ""
			}
			h.rows++
			if f.rows[x.payload.Policy] == now {
				h.had++
			}
			f.rows[x.payload.Policy] = now
		}
		if x.event == "policy_updated" && x.id>>numberBits >= place {
			return h, nil
		}
	}
}

// next reads one event.
func (f *follower) next() (x frame, err error) {
	var data strings.Builder
	for {
		line, err := f.frames.ReadString('\n')
		if err != nil {
			return x, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			if x.id, err = strconv.ParseUint(value, 10, 64); err != nil {
				return x, err
			}
		case "event":
			x.event = value
		case "data":
			data.WriteString(value)
		case "":
			if x.event == "" {
				continue
			}
			var envelope struct {
				Payload json.RawMessage `json:"payload"`
			}
			if err := json.Unmarshal([]byte(data.String()), &envelope); err != nil {
				return x, err
			}
			return x, json.Unmarshal(envelope.Payload, &x.payload)
		}
	}
}

// followers are some before one plane, and the policy that all of them have,
// whose revisions end what they are sent.
type followers struct {
	s     *served
	a     *author
	all   []*follower
	mark  int // the policy
	marks int
}

// marked publishes a revision that everybody is sent, and says where ids have
// it.
func (f *followers) marked(ctx context.Context) (at uint64, err error) {
	f.marks++
	if err := f.s.publish(ctx, []policy.Event{f.a.revise(f.mark, selecting("env=prod"), 1, f.marks)}); err != nil {
		return 0, err
	}
	st, err := f.s.settled(ctx)
	return place(f.s.log, st.Head), err
}

// meet has all of them read up to where the plane is now, and says what they were
// sent on the way.
func (f *followers) meet(ctx context.Context) (sum heard, err error) {
	for _, x := range f.all {
		if err := x.open(ctx); err != nil {
			return sum, err
		}
	}
	at, err := f.marked(ctx)
	if err != nil {
		return sum, err
	}
	for _, x := range f.all {
		h, err := x.until(at)
		if err != nil {
			return sum, fmt.Errorf("%s: %w", x.node, err)
		}
		h.rows-- // the mark
		sum.rows, sum.had, sum.words = sum.rows+h.rows, sum.had+h.had, sum.words+h.words
		if err := x.close(); err != nil {
			return sum, err
		}
	}
	return sum, nil
}
