package lint

import (
	"fmt"
	"strings"

	"github.com/edictdev/edict/internal/compiler/firstmatch"
	"github.com/edictdev/edict/policy"
)

// Codes of what a policy would do to nodes. Only who knows the nodes can say it: a
// dry run of the plane.
const (
	CodeDirectionClosed = "direction_closed"
	CodeDirectionOpened = "direction_opened"
	CodeTooManyEntries  = "too_many_entries"
	CodeBlockTooLarge   = "block_too_large"
)

// Nodes are some that a policy would change: how many, and the first by id. More:
// others were not looked at.
type Nodes struct {
	Count int
	First []policy.NodeID
	More  bool
}

// DirectionClosed warns that nodes would deny what no rule decides, in a direction
// in which they allow it now: egress or ingress.
func DirectionClosed(direction string, n Nodes) Warning {
	return Warning{Violation: policy.Violation{
		Pointer: "/rules", Code: CodeDirectionClosed,
		Detail: fmt.Sprintf("it switches %s to default deny for %s: %s; add default_deny: false if what no rule decides is to stay allowed there", n.count(), direction, n.names()),
	}}
}

// DirectionOpened warns that nodes would allow what no rule decides, in a direction in
// which they deny it now: so it is with the first policy of a node that is not plain.
func DirectionOpened(direction string, n Nodes) Warning {
	return Warning{Violation: policy.Violation{
		Pointer: "/rules", Code: CodeDirectionOpened,
		Detail: fmt.Sprintf("it switches %s to default allow for %s: %s; add a rule that denies the rest, in tier baseline, if what no rule decides is to stay denied there", n.count(), direction, n.names()),
	}}
}

// TooManyEntries warns that the tables of nodes would be refused; why is the reason
// of the first of them.
func TooManyEntries(n Nodes, why error) Warning {
	return Warning{Violation: policy.Violation{
		Pointer: "/rules", Code: CodeTooManyEntries,
		Detail: fmt.Sprintf("%s would keep their last table: %s; the next one is refused: %v", n.count(), n.names(), why),
	}}
}

// BlockTooLarge warns that the resolved blocks of nodes would leave allows out.
func BlockTooLarge(n Nodes) Warning {
	return Warning{Violation: policy.Violation{
		Pointer: "/rules", Code: CodeBlockTooLarge,
		Detail: fmt.Sprintf("agents of the node contract take at most %d rules: %s would deny some of what is allowed: %s; name peers by CIDR instead of by selector", firstmatch.MaxRules, n.count(), n.names()),
	}}
}

func (n Nodes) count() string {
	text := fmt.Sprintf("%d nodes", n.Count)
	if n.Count == 1 {
		text = "1 node"
	}
	if n.More {
		return "at least " + text
	}
	return text
}

func (n Nodes) names() string {
	names := make([]string, len(n.First))
	for i, id := range n.First {
		names[i] = string(id)
	}
	if n.Count > len(names) || n.More {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
