package rollout

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Act is what should be done about a rollout.
type Act int

// What can be done.
const (
	Wait Act = iota
	Open     // the next wave
	Stop
)

// Decision is an act, and why, in one line for people.
type Decision struct {
	Act Act
	Why string
}

// Decide holds what nodes report against the gate, both for all nodes that the
// rollout has reached and for those of its newest wave alone: a large first wave does
// not speak for a small second one. Silent nodes have not applied anything, so the
// wave waits for them, and refuse nothing. A gate that no node answers is not met,
// so that a wave whose label nobody has is no promotion at once; a later wave
// without nodes opens the next.
func Decide(r convergence.Reached) Decision {
	gate, wave := r.Rollout.Gate, len(r.Rollout.Opened)
	newest := fmt.Sprintf("nodes of wave %d", wave)
	const all = "nodes of all open waves"
	refuses := func(s convergence.Share) bool {
		return gate.Broken(s.Refused, s.Nodes) && !fault.Always(fault.BoldWave)
	}
	switch {
	case r.Rollout.Phase == projector.RolloutStopped:
		return Decision{Wait, "it has stopped"}
	case refuses(r.Newest):
		return Decision{Stop, refusal(r, r.Newest, newest)}
	case refuses(r.All):
		return Decision{Stop, refusal(r, r.All, all)}
	case r.All.Nodes == 0:
		return Decision{Wait, "the open waves change no node"}
	case !passed(gate, r.Newest):
		return Decision{Wait, lack(gate, r.Newest, newest)}
	case !passed(gate, r.All):
		return Decision{Wait, lack(gate, r.All, all)}
	}
	return Decision{Open, fmt.Sprintf("%d of %d %s applied it", r.All.Applied, r.All.Nodes, all)}
}

func passed(gate policy.Gate, s convergence.Share) bool {
	if fault.Always(fault.BoldWave) {
		return gate.Passed(s.Applied+s.Refused, s.Nodes)
	}
	return gate.Passed(s.Applied, s.Nodes)
}

func lack(gate policy.Gate, s convergence.Share, of string) string {
	return fmt.Sprintf("%d of %d %s applied it, and %d%% must", s.Applied, s.Nodes, of, gate.MinApplied)
}

// refusal says how many nodes refused it, and what one of them says.
func refusal(r convergence.Reached, s convergence.Share, of string) string {
	why := fmt.Sprintf("%d of %d %s refused it, and %d%% may", s.Refused, s.Nodes, of, r.Rollout.Gate.MaxRefused)
	if r.Example.Node == "" {
		return why
	}
	why += "; " + string(r.Example.Node)
	if r.Example.Reason != "" {
		why += ": " + r.Example.Reason
	}
	return cut(why)
}

// cut shortens a line to what an event may say.
func cut(line string) string {
	const more = "…"
	if len(line) <= policy.MaxReason {
		return line
	}
	line = line[:policy.MaxReason-len(more)]
	for !utf8.ValidString(line) {
		line = line[:len(line)-1]
	}
	return strings.TrimRight(line, " ") + more
}
