package artifact

import (
	"fmt"

	"github.com/edictdev/edict/policy"
	strict "github.com/go-json-experiment/json"
)

// KindState is the kind of an envelope that has a node pull its state; its name
// is the reason.
const KindState = "state"

// Reasons to pull.
const (
	ReasonResync   = "resync"   // what the node missed is not known
	ReasonDatapath = "datapath" // its table changed, and none of its rows did
)

// StatePayload has a node pull its state, over SSE and on NATS alike.
type StatePayload struct {
	NodeID policy.NodeID `json:"node_id"`
	Reason string        `json:"reason"`
}

// Append appends the payload as it travels, which is its RFC 8785 form.
func (p StatePayload) Append(b []byte) []byte {
	b = append(append(b, `{"node_id":"`...), p.NodeID...)
	b = append(append(b, `","reason":"`...), p.Reason...)
	return append(b, `"}`...)
}

// ParseStatePayload reads what Append wrote.
func ParseStatePayload(doc []byte) (p StatePayload, err error) {
	if err = strict.Unmarshal(doc, &p, strict.RejectUnknownMembers(true)); err == nil {
		p.NodeID, err = policy.ParseNodeID(string(p.NodeID))
	}
	if err != nil {
		return StatePayload{}, fmt.Errorf("state payload: %w", err)
	}
	return p, nil
}
