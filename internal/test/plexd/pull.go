package plexd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"
)

// maxAnswer is the most bytes of an answer, inflated.
const maxAnswer = 10 << 20

// snapshot is a state as it was pulled, of which an agent looks at these.
type snapshot struct {
	Policy  json.RawMessage `json:"policy"`
	Bridge  any             `json:"bridge"`
	State   any             `json:"state"`
	Reports any             `json:"reports"`
	// SigningKeys is read by the legacy dialect.
	SigningKeys json.RawMessage `json:"signing_keys"`

	block *block // of Policy; nil for null
}

// block is the policy of a state.
type block struct {
	RevisionID  string `json:"revision_id"`
	Fingerprint string `json:"fingerprint"`
	Rules       []Rule `json:"rules"`
}

// Applied is what an agent has put in place last.
type Applied struct {
	Policy      json.RawMessage // the block it comes from; nil before the first, and for null
	Fingerprint string
	Ruleset     []FirewallRule // current dialect
}

// Applied is what is in place now.
func (a *Agent) Applied() Applied {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.installed
}

// reconcile pulls at once, whenever it is asked for, and every so often.
func (a *Agent) reconcile(ctx context.Context) {
	clock := time.NewTicker(a.opt.Periods.Pull)
	defer clock.Stop()
	for ctx.Err() == nil {
		a.pull(ctx)
		select {
		case <-a.wanted:
		case <-clock.C:
		case <-ctx.Done():
		}
	}
}

// pull is one pull and what comes of it. A failure waits for the next.
func (a *Agent) pull(ctx context.Context) {
	s, status, err := a.state(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		a.book.note(func(c *Counters) { c.PullFailures++; c.LastPull = status })
		return
	}
	changed, err := a.settle(s)
	a.book.note(func(c *Counters) {
		c.Pulls++
		c.LastPull = status
		switch {
		case err != nil:
			c.Rejected++
		case len(changed) == 0:
			c.Unchanged++
		}
	})
	if err == nil && len(changed) > 0 {
		a.reportChanges(ctx, changed)
	}
}

// state pulls.
func (a *Agent) state(ctx context.Context) (s *snapshot, status int, err error) {
	req, err := a.request(ctx, http.MethodGet, "state", nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, resp.StatusCode, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, resp.StatusCode, fmt.Errorf("state: %s", resp.Status)
	}
	s = &snapshot{}
	if err := json.Unmarshal(body, s); err != nil {
		return nil, resp.StatusCode, err
	}
	if len(s.Policy) > 0 && !bytes.Equal(s.Policy, []byte("null")) {
		s.block = &block{}
		err = json.Unmarshal(s.Policy, s.block)
	}
	return s, resp.StatusCode, err
}

// settle makes what is in place equal to a snapshot and says what was
// different. An error keeps everything as it was, and the next pull tries again.
func (a *Agent) settle(s *snapshot) (changed []string, err error) {
	a.mu.Lock()
	last := a.last
	a.mu.Unlock()
	if last == nil {
		last = &snapshot{}
	}
	if a.opt.Dialect == Legacy && len(s.SigningKeys) > 0 {
		_ = a.trust.rotate(s.SigningKeys) // keys that it cannot read change nothing
	}
	kind := policyChange(last.block, s.block)
	if kind != "" {
		if err := a.apply(s); err != nil {
			return nil, err
		}
		changed = append(changed, kind)
	}
	for name, pair := range map[string][2]any{"bridge": {last.Bridge, s.Bridge}, "state": {last.State, s.State}, "reports": {last.Reports, s.Reports}} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			changed = append(changed, name+"_updated")
		}
	}
	a.mu.Lock()
	a.last = s
	a.mu.Unlock()
	return changed, nil
}

// policyChange compares two blocks by their fingerprints alone. One without a
// fingerprint always differs.
func policyChange(before, now *block) string {
	switch {
	case before == nil && now == nil:
		return ""
	case before == nil:
		return "policy_added"
	case now == nil:
		return "policy_removed"
	case now.Fingerprint == "" || before.Fingerprint != now.Fingerprint:
		return "policy_updated"
	}
	return ""
}

// apply puts a snapshot's policy in place.
func (a *Agent) apply(s *snapshot) error {
	var rules []FirewallRule
	if a.opt.Dialect == Current { // the legacy one cannot say such rules
		var err error
		if rules, err = buildFirewallRules(s.block); err != nil {
			return err
		}
	}
	a.install(s, rules)
	a.book.note(func(c *Counters) { c.Applied++ })
	return nil
}

func (a *Agent) install(s *snapshot, rules []FirewallRule) {
	done := Applied{Ruleset: rules}
	if s != nil && s.block != nil {
		done.Policy, done.Fingerprint = s.Policy, s.block.Fingerprint
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.installed = done
}
