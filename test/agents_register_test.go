package test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/plexd"
)

// Nodes whose agents register: an agent carries its node's id as 16 bytes.
const (
	currentNode = "0190a1b2-0000-7000-8000-0000000000c1"
	legacyNode  = "0190a1b2-0000-7000-8000-0000000000a1"
	stockNode   = "0190a1b2-0000-7000-8000-0000000000a2"
)

// guardedPlane is a plane on loopback that asks everybody for credentials.
func guardedPlane(t *testing.T, args ...string) *process {
	t.Helper()
	bin, err := edict()
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "access.json")
	p := newProcess(t, bin, append([]string{"--access", file}, args...)...)
	out, code := p.run("access", "token", "create", "root", "--file", file, "--relation", "plane#admin")
	require.Zero(t, code)
	p.token = strings.TrimSpace(out)
	p.tokenFile = filepath.Join(dir, "root.token")
	require.NoError(t, os.WriteFile(p.tokenFile, []byte(out), 0o600))
	p.start()
	return p
}

// bootstrap makes a bootstrap token for a node, as an operator does, and says
// how its agent registers with it.
func (p *process) bootstrap(node string) plexd.Registration {
	p.t.Helper()
	out, code := p.run("access", "bootstrap", "--node", node)
	require.Zero(p.t, code)
	return plexd.Registration{Token: strings.TrimSpace(out), Project: defaultProject, Resource: "web", Hostname: "web"}
}

// enlisted is a node whose agent registers.
func (s *story) enlisted(node string, opt plexd.Options) *hand {
	s.t.Helper()
	opt.Registration = s.bootstrap(node)
	h := s.hire(node, opt)
	h.await("it follows", func(c plexd.Counters) bool { return c.Connects() > 0 && c.Pulls > 0 && c.Heartbeats > 0 })
	require.Equal(s.t, node, h.Identity().NodeID)
	return h
}

// TestAgentsRegisterAndLive has agents of both dialects live on a guarded plane,
// from the bootstrap token on, through kill -9 of the plane and their own end.
func TestAgentsRegisterAndLive(t *testing.T) {
	p := guardedPlane(t)
	s := &story{process: p, policies: map[string]head{}}
	for _, node := range []string{currentNode, legacyNode, stockNode} {
		s.label(node, map[string]string{"role": "agent"})
	}
	dir := t.TempDir()
	brisk := storyPeriods
	brisk.Report, brisk.Heartbeat = 50*time.Millisecond, 50*time.Millisecond
	current := s.enlisted(currentNode, plexd.Options{DataDir: dir, Periods: brisk})
	brisk.Heartbeat, brisk.Stream = 0, 0
	legacy := s.enlisted(legacyNode, plexd.Options{Dialect: plexd.Legacy, Handlers: true, Periods: brisk})
	brisk.Heartbeat, brisk.Pull = 50*time.Millisecond, time.Hour // what its heartbeat tells is all it goes by
	stock := s.enlisted(stockNode, plexd.Options{Dialect: plexd.Legacy, Periods: brisk})
	all := []*hand{current, legacy, stock}

	s.create("agents", "role=agent", "role=nobody", []oracle.Rule{tcp(80)})
	for _, h := range all {
		h.settles(&s.plane)
	}
	require.Positive(t, stock.Counters().Hints, "who does not listen is notified by the heartbeat's answer")
	legacy.await("it is sent", func(c plexd.Counters) bool { return c.Dispatched > 0 })
	require.LessOrEqual(t, legacy.Counters().Hints, 1, "of what it has nothing is known at first")
	require.Equal(t, 1, legacy.Counters().Heartbeats)
	current.await("it reports", func(c plexd.Counters) bool { return c.Reports >= 9 })
	for _, h := range all {
		h.await("it reports", func(c plexd.Counters) bool { return c.Reports > 0 })
		require.Zero(t, h.Counters().ReportFailures, "%s: %+v", h.node, h.Counters())
	}
	var rollout struct{ Desired, Applied int }
	require.True(t, waitFor(20*time.Second, func() bool {
		require.NoError(t, json.Unmarshal(p.do("GET", "/v1/projects/"+defaultProject+"/policies/"+s.policies["agents"].id+"/rollout", nil, 200), &rollout))
		return rollout.Applied == 3 && rollout.Desired == 3
	}), "the rollout shows what agents report: %+v", rollout)

	p.kill()
	p.start()
	s.revise("agents", "role=agent", "role=nobody", manyRules(1024))
	for _, h := range all {
		h.settles(&s.plane)
	}

	current.end()
	again := p.hire(currentNode, plexd.Options{DataDir: dir, Periods: storyPeriods})
	again.settles(&s.plane)
	all[0] = again
	require.Zero(t, again.Counters().Registrations, "who is registered does not register")

	_, code := p.run("key", "rotate", "--transition", "1m")
	require.Zero(t, code)
	for _, h := range all {
		h.await("it takes the new key", func(c plexd.Counters) bool { return c.Rotations > 0 })
	}
	before := again.Counters().Dispatched
	s.revise("agents", "role=agent", "role=nobody", []oracle.Rule{tcp(443)})
	for _, h := range all {
		h.settles(&s.plane)
	}
	again.await("the new key signs", func(c plexd.Counters) bool { return c.Dispatched > before })

	for why, c := range map[string]struct {
		token  string
		status int
		code   string
	}{
		"used before": {current.token, http.StatusForbidden, "token_consumed"},
		"unknown":     {"psb_edict_aa_node_" + strings.Repeat("a", 26), http.StatusUnauthorized, "unauthenticated"},
		"no token":    {"x", http.StatusUnauthorized, "unauthenticated"},
	} {
		for _, d := range []plexd.Dialect{plexd.Current, plexd.Legacy} {
			a, err := plexd.New(plexd.Options{
				Base: current.base, Dialect: d, Transport: described,
				Registration: plexd.Registration{Token: c.token, Project: defaultProject, Resource: "web"},
			})
			require.NoError(t, err)
			var refused *plexd.RegistrationError
			require.True(t, errors.As(a.Run(context.Background()), &refused), why)
			require.Equal(t, plexd.RegistrationError{Status: c.status, Code: c.code}, *refused, why)
		}
	}

	for why, c := range map[string]struct {
		bearer string
		status int
	}{
		"of another node":           {legacy.Identity().Bearer, http.StatusForbidden},
		"that is the secret itself": {base64.StdEncoding.EncodeToString(make([]byte, 32)), http.StatusUnauthorized},
	} {
		id := again.Identity()
		id.Bearer = c.bearer
		h := p.hire(currentNode, plexd.Options{Identity: &id, Terse: true})
		h.await("a token "+why, func(n plexd.Counters) bool {
			return n.Mode == plexd.Deaf && n.PullFailures > 0 && n.HeartbeatFailures > 0
		})
		require.Equal(t, map[int]int{c.status: 1}, h.Counters().Answers, why)
		require.Equal(t, c.status, h.Counters().LastPull)
		h.end()
	}

	_, code = p.run("access", "remove", currentNode)
	require.Zero(t, code)
	again.await("who is removed hears nothing more", func(c plexd.Counters) bool { return c.Mode == plexd.Deaf && c.Answers[401] == 1 })
	for _, h := range all[1:] {
		require.Empty(t, h.differs(h.wanted(&s.plane)))
	}
	p.terminate()
}
