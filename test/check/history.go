// Package check judges histories: what nodes were told over SSE and NATS and
// what the node stream stored, against the events of the log. It is pure: who
// drives a plane records, and Judge says which promise of design section 12 was
// broken, where, and by which rule. It shares no code with what it judges; what
// a row must be is the oracle's word.
package check

// Frame is one message as a node got it, over either transport.
type Frame struct {
	Seq         uint64 // of the node stream
	Version     uint64 // of the log
	Node        string // whom it is about
	Policy      string
	Fingerprint string
	Rules       string // compact JSON, verbatim
	Omitted     int    // rules that are left out, as the message counts them
	KeyID       string // that signed what the node stream stores; "": not known
	Pull        bool   // the word to pull; the fields but Seq and Node are empty

	// Applied is the cursor of the process that sent the frame, as read after it
	// was received; 0: not known.
	Applied uint64
}

// again reports whether f says what was said before, under another key: so a
// rotation has it.
func (f Frame) again(was Frame) bool {
	return f.Version == was.Version && f.KeyID != was.KeyID && f.KeyID != "" && was.KeyID != ""
}

// Session is a stretch of one node's life: a stream over SSE, an answer over
// NATS, or a pull of its state.
type Session struct {
	Over   string // "SSE", "NATS" or "pull"
	After  uint64 // what it resumed from; of a pull, what it may stream after
	Live   bool   // it named nothing to resume from
	Frames []Frame
	UpTo   uint64           // complete up to here, where the transport says so; 0: up to the last frame
	Pull   bool             // the answer itself said to pull, where that is no frame
	Rows   map[string]Frame // of a pull, by policy
	Broken string           // a frame that could not be read or did not verify, and why
}

// Watcher is everything one client of one node met, in order.
type Watcher struct {
	Node     string
	Sessions []Session
	// Settled: the client followed until everything announced had reached it.
	Settled bool
}

// Event is one message of the log.
type Event struct {
	Seq      uint64
	Body     []byte
	Rejected bool
}

// Fence is one message of edict.fence.<partition>.
type Fence struct {
	Seq       uint64 // of the node stream
	Partition int
	Owner     string
	Epoch     uint64
	Mode      string
	After     Position
}

// Position is a place in the order of a partition's announcements. End: behind
// all of its sequence.
type Position struct {
	Seq    uint64
	Policy string
	Node   string
	End    bool
}

// Mark is one edict.mark.sync.<partition>.
type Mark struct {
	Seq       uint64 // of the node stream
	Partition int
}

// Quiet is a moment at which everything up to Log was announced, and nothing
// stood in the node stream behind Stream.
type Quiet struct{ Log, Stream uint64 }

// Run is everything that was recorded of one plane.
type Run struct {
	Log       []Event // from the first on
	Announced []Frame // every message the node stream stored for nodes, as far as heard; at least those it retains
	Fences    []Fence // as far as heard
	Marks     []Mark
	First     uint64           // edict.first of the node stream
	Partition func(string) int // of a node
	Whole     bool             // Announced lacks nothing
	Quiet     []Quiet          // ascending; the last one is the end
	Watchers  []*Watcher
	States    map[string]string // GET state of each node at the end, by node
	Digests   map[string]string // of stores that stand at one sequence, by worker
}
