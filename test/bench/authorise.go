package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const (
	authorisePrincipals = 10_000
	authoriseTimes      = 200_000
)

// authoriseProject has the nodes.
var authoriseProject = uuid.Max

// authorise measures what access adds to a request, in process: whose token it
// is, whether it has asked too often, and whether it may. The floor is what no
// way around it could save, the token's hash and one look-up.
func authorise(ctx context.Context, e *env) ([]line, error) {
	file, tokens := access.File{}, make([]string, e.scale(authorisePrincipals))
	nodes := make([]policy.NodeID, len(tokens))
	known := map[[sha256.Size]byte]policy.PrincipalID{}
	for i := range tokens {
		text, kept := access.NewToken(uuid.New(), time.Time{})
		nodes[i] = nodeName(i)
		id := policy.PrincipalID(nodes[i])
		file[id] = &access.Entry{
			Principal: policy.Principal{Kind: policy.Agent, Tokens: []policy.Token{kept}},
			Relations: []policy.Relation{{Kind: policy.ObjectNode, ID: authoriseProject, Node: nodes[i], Name: policy.RelationAgent}},
		}
		tokens[i], known[kept.Hash] = text, id
	}
	door := doorkeeper{
		registry: access.NewRegistry(emptyLog{}, access.Options{File: file}),
		limiter:  access.NewLimiter(authoriseTimes), // more than is asked: nobody is turned away
	}
	var took, bare, allocations samples
	for range e.rounds() {
		us, each, err := perRequest(e.scale(authoriseTimes), func(i int) bool {
			return door.admits(ctx, tokens[i%len(tokens)], nodes[i%len(nodes)])
		})
		if err != nil {
			return nil, err
		}
		took, allocations = append(took, us), append(allocations, each)
		if us, _, err = perRequest(e.scale(authoriseTimes), func(i int) bool {
			return known[sha256.Sum256([]byte(tokens[i%len(tokens)]))] != ""
		}); err != nil {
			return nil, err
		}
		bare = append(bare, us)
	}
	if door.admits(ctx, tokens[0], nodes[1]) || door.admits(ctx, "edt_stranger", nodes[0]) {
		return nil, errors.New("somebody was let in who must not be")
	}
	l := figure("", "us", took).beside("the token's hash, looked up in a map", bare).atMost(5)
	l.note("%s agents, each with a token and its node; its rate limited", grouped(int64(len(tokens))))
	return []line{*l, *figure("allocations", "a request", allocations).atMost(2)}, nil
}

// emptyLog has no principals: all are the file's.
type emptyLog struct{}

func (emptyLog) AccessVersion() uint64        { return 0 }
func (emptyLog) Read(func(v *projector.View)) {}

type doorkeeper struct {
	registry *access.Registry
	limiter  *access.Limiter
}

func (d *doorkeeper) admits(ctx context.Context, token string, node policy.NodeID) bool {
	p, err := d.registry.Authenticate(ctx, access.Credentials{Bearer: token})
	if err != nil {
		return false
	}
	_, room := d.limiter.Take(p.ID, time.Now())
	return room && p.Decide(access.ReadNode, access.Object{Project: authoriseProject, Node: node}) == access.Allow
}

// perRequest is the time in microseconds that ask takes, and its allocations.
// The first round of asking is not measured: limits are made then.
func perRequest(n int, ask func(i int) bool) (us, allocations float64, err error) {
	for i := range n {
		if !ask(i) {
			return 0, 0, errors.New("somebody was turned away who must not be")
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for i := range n {
		ask(i)
	}
	us = float64(time.Since(began).Nanoseconds()) / 1e3 / float64(n)
	runtime.ReadMemStats(&after)
	return us, float64(after.Mallocs-before.Mallocs) / float64(n), nil
}
