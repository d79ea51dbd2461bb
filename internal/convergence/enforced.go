package convergence

import "github.com/edictdev/edict/policy"

// enforced are the log sequences up to which nodes say that the table in force is
// right, by ordinal. Nodes that enforce no table say nothing of it.
type enforced map[uint32]uint64

// note keeps what a node's last report says. What is not applied says nothing of the
// table, and so takes nothing back.
func (e enforced) note(ordinal uint32, said policy.Report) {
	switch {
	case said.Table != 0:
		e[ordinal] = said.Table
	case said.Outcome == policy.OutcomeApplied:
		delete(e, ordinal)
	}
}

// reaches reports whether the table that a node has in force is right as of a sequence,
// or the node enforces none.
func (e enforced) reaches(ordinal uint32, seq uint64) bool {
	at, tables := e[ordinal]
	return !tables || at >= seq
}
