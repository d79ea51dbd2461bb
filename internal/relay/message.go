package relay

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// message is a message over SSE without its node. The queues of all streams that it
// is for share it, so it is not changed.
type message struct {
	id      policy.EventID
	subject subject
	kind    string // the event's type
	// tail is the payload after the node's id, which is its first member, in the form
	// that notices carry: escaped for HTML. It is the same for all nodes.
	tail  []byte
	cause time.Time // when the log stored the event; zero: it is not live
	trace string    // traceparent of what caused it; empty: it is not live, or has none
}

// subject is what a message is about. Of two messages about the same subject, a
// queue keeps the newer.
type subject struct {
	policy uuid.UUID
	name   string // of an artifact, <kind>.<name> and the rete of a further one; or the reason to pull
}

// payloadHead stands before the node's id in every payload.
const payloadHead = `{"node_id":"`

// messageOf is the message to nodes that have an item, or no longer have it.
func messageOf(item *projector.Item, gone bool) *message {
	if item.Kind != "" {
		return artifactMessageOf(item, gone)
	}
	payload, fingerprint := compiler.Empty.Payload, compiler.Empty.Fingerprint
	if !gone {
		payload, fingerprint = item.Payload, item.Fingerprint
	}
	if fault.Sometimes(fault.TwoContents) {
		payload, fingerprint = compiler.Empty.Payload, compiler.Empty.Fingerprint
	}
	id := item.ID
	if fault.Sometimes(fault.WrongID) {
		id++
	}
	plain := compiler.Plain(payload, fingerprint)
	p := artifact.PolicyPayload{
		PolicyID: item.Policy, RevisionID: item.Revision,
		Fingerprint: plain.Fingerprint, Rules: plain.Payload, RulesOmitted: plain.Omitted, Resolved: item.Extended && !gone,
	}
	b := p.Append(make([]byte, 0, len(plain.Payload)+256))
	return &message{id: id, subject: subject{policy: item.Policy}, kind: wire.TypePolicyUpdated, tail: tailOf(b)}
}

// tailOf is the tail of a payload that was made for the node "".
func tailOf(payload []byte) []byte { return artifact.NoticePayload(payload[len(payloadHead):]) }

// artifactMessageOf is messageOf for an artifact whose document fits on one data:
// line. For a larger document the node is to pull.
func artifactMessageOf(item *projector.Item, gone bool) *message {
	about := subject{name: item.Kind + "." + item.Name}
	p := artifactUpdated("", item, gone)
	if len(*p.Document) <= maxDataLine {
		if tail := tailOf(appendArtifact(nil, p)); len(tail) <= maxDataLine-artifactOverhead {
			return &message{id: item.ID, subject: about, kind: wire.TypeArtifactUpdated, tail: tail}
		}
	}
	n := pullMessage(artifact.ReasonResync, item.ID)
	n.subject = about
	return n
}

// pullMessage has a node pull its state, for a reason.
func pullMessage(reason string, id policy.EventID) *message {
	return &message{
		id: id, subject: subject{name: reason}, kind: wire.TypeStateUpdated,
		tail: tailOf(artifact.StatePayload{Reason: reason}.Append(nil)),
	}
}

// appendPayload appends the payload for one node.
func (n *message) appendPayload(b []byte, node policy.NodeID) []byte {
	return append(append(append(b, payloadHead...), node...), n.tail...)
}

// noticeID is the id of the notice for one node. A resync has the event id that the
// node came with, under which another message was sent, so its notice id differs.
func (n *message) noticeID(node policy.NodeID) string {
	var b strings.Builder
	b.Grow(len(node) + 32)
	b.WriteString(string(node))
	if n.subject.name == artifact.ReasonResync {
		b.WriteString("." + artifact.ReasonResync)
	}
	b.WriteByte('.')
	var digits [20]byte
	b.Write(strconv.AppendUint(digits[:0], uint64(n.id), 10))
	return b.String()
}
