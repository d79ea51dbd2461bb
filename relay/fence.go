package relay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Key is the place of one announcement in the total order of a partition: by
// log sequence, then policy id, then node id, each bytewise on its text. The
// zero Key stands before everything.
type Key struct {
	Seq    uint64        `json:"seq"`
	Policy string        `json:"policy"`
	Node   policy.NodeID `json:"node"`
}

// endOf sorts after every policy id and every node id, so that the end of a
// sequence needs no rule of its own in the order, on the wire or in a test.
const endOf = "~"

// End is the position above everything announced for one log sequence.
func End(seq uint64) Key { return Key{Seq: seq, Policy: endOf, Node: endOf} }

// IsEnd reports whether k is the end of its sequence.
func (k Key) IsEnd() bool { return k.Policy == endOf }

// Compare is the total order (design section 6).
func (k Key) Compare(o Key) int {
	return cmp.Or(
		cmp.Compare(k.Seq, o.Seq),
		strings.Compare(k.Policy, o.Policy),
		strings.Compare(string(k.Node), string(o.Node)),
	)
}

// String is seq/policy/node, or seq/end.
func (k Key) String() string {
	if k.IsEnd() {
		return strconv.FormatUint(k.Seq, 10) + "/end"
	}
	return strconv.FormatUint(k.Seq, 10) + "/" + k.Policy + "/" + string(k.Node)
}

// Mode says how the owner of a partition finds what to announce.
type Mode string

const (
	// Follow announces the read model's edges in order.
	Follow Mode = "follow"
	// Sync announces differences between the stream and the rows at one
	// sequence. What Follow would have told below it is not all told yet.
	Sync Mode = "sync"
)

// Fence is the last message of edict.fence.<partition>: who announces the
// partition and how far that is. Every batch replaces it under the sequence
// its owner believes it has, so of two owners one is refused.
type Fence struct {
	Log   string `json:"log"`   // the log's identity (contracts: Edict-Log)
	Owner string `json:"owner"` // random id of one process start
	Epoch uint64 `json:"epoch"` // rises by one whenever the partition is taken
	Mode  Mode   `json:"mode"`
	After Key    `json:"after"` // the last announcement of its batch
}

// ParseFence reads the body of a fence.
func ParseFence(body []byte) (Fence, error) {
	var f Fence
	if err := json.Unmarshal(body, &f); err != nil {
		return Fence{}, fmt.Errorf("read fence: %w", err)
	}
	if f.Mode != Follow && f.Mode != Sync {
		return Fence{}, fmt.Errorf("read fence: unknown mode %q: its writer is newer than this binary", f.Mode)
	}
	return f, nil
}

// Body is the fence as it is stored.
func (f Fence) Body() []byte {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	return b
}

// MsgID names the batch that f opens. Only the same batch sent again has the
// same name: another owner of the same epoch differs in owner, the last batch
// of a sync in mode.
func (f Fence) MsgID(partition int) string {
	return fmt.Sprintf("%s.%d.%s.%d.%s.%s", f.Log, partition, f.Owner, f.Epoch, f.Mode, f.After)
}

// placed is a fence and its sequence in the node stream. Seq 0: there is none.
type placed struct {
	Fence
	Seq uint64
}
