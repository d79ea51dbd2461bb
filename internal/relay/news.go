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

// news is one thing to tell over SSE, as the queues of all streams that owe it
// share it. Nobody changes it.
type news struct {
	id    policy.EventID
	about subject
	kind  string // the event's type
	// tail is the payload after its first member, the node's id, as notices carry
	// it: escaped for HTML. What one event tells many nodes differs in no more.
	tail  []byte
	cause time.Time // when the log stored what it tells; zero: it is not live
}

// subject is what news is about. Of two about one, a queue keeps the newer.
type subject struct {
	policy uuid.UUID
	name   string // of an artifact, <kind>.<name>, or the reason of a word to pull
}

// payloadHead stands before the node's id in every payload.
const payloadHead = `{"node_id":"`

// newsOf is what a node that has an item, or has it no more, is told.
func newsOf(item *projector.Item, gone bool) *news {
	if item.Kind != "" {
		return newsOfArtifact(item, gone)
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
		Fingerprint: plain.Fingerprint, Rules: plain.Payload, RulesOmitted: plain.Omitted,
	}
	b := p.Append(make([]byte, 0, len(plain.Payload)+256))
	return &news{id: id, about: subject{policy: item.Policy}, kind: wire.TypePolicyUpdated, tail: tailOf(b)}
}

// tailOf is a payload of the node "" without its head.
func tailOf(payload []byte) []byte { return artifact.NoticePayload(payload[len(payloadHead):]) }

// newsOfArtifact is newsOf for an artifact, as long as a data: line has room for
// its document. Of a larger one the node is told to pull.
func newsOfArtifact(item *projector.Item, gone bool) *news {
	about := subject{name: item.Kind + "." + item.Name}
	p := artifactUpdated("", item, gone)
	if len(*p.Document) <= dataRoom {
		if tail := tailOf(appendArtifact(nil, p)); len(tail) <= dataRoom-artifactRoom {
			return &news{id: item.ID, about: about, kind: wire.TypeArtifactUpdated, tail: tail}
		}
	}
	n := wordOf(artifact.ReasonResync, item.ID)
	n.about = about
	return n
}

// wordOf is the word to pull, for a reason.
func wordOf(reason string, id policy.EventID) *news {
	return &news{
		id: id, about: subject{name: reason}, kind: wire.TypeStateUpdated,
		tail: tailOf(artifact.StatePayload{Reason: reason}.Append(nil)),
	}
}

// appendPayload appends the payload as one node is told it.
func (n *news) appendPayload(b []byte, node policy.NodeID) []byte {
	return append(append(append(b, payloadHead...), node...), n.tail...)
}

// noticeID names the news of one node. The word that what was missed cannot be
// told goes under an id that the node gave, so it has a name of its own.
func (n *news) noticeID(node policy.NodeID) string {
	var b strings.Builder
	b.Grow(len(node) + 32)
	b.WriteString(string(node))
	if n.about.name == artifact.ReasonResync {
		b.WriteString("." + artifact.ReasonResync)
	}
	b.WriteByte('.')
	var digits [20]byte
	b.Write(strconv.AppendUint(digits[:0], uint64(n.id), 10))
	return b.String()
}
