package relay

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/streams"
)

// news is a message of the node stream as everybody in this process shares
// it: the ring and the queues of all streams hold the same one. Nobody changes
// it.
type news struct {
	streams.Message
	why string // it makes the node pull, for this reason; empty: it is an announcement

	once sync.Once
	told told
	err  error
}

// told is what a frame needs of an announcement.
type told struct {
	payload []byte    // as artifact.AppendNotice wants it; nil: not for SSE
	kind    string    // the event's type
	pull    bool      // in its place the node is told to pull
	cause   time.Time // when the log stored what the message tells
}

// Reasons to pull. News of them have no subject.
const (
	whyResync = "resync"   // the stream may not have told everything
	whyTable  = "datapath" // the table changed, and no row
)

func resync(seq uint64) *news {
	return &news{Message: streams.Message{Seq: seq}, why: whyResync}
}

// read takes the stored envelope apart, once for all who send it.
func (e *news) read() (told, error) {
	e.once.Do(func() { e.told, e.err = readTold(e.Body) })
	return e.told, e.err
}

// stored is what a frame needs of a stored envelope.
type stored struct {
	Plane       string          `json:"plane"`
	Kind        string          `json:"kind"`
	GeneratedAt time.Time       `json:"generated_at"`
	Payload     json.RawMessage `json:"payload"`
}

func readTold(body []byte) (told, error) {
	e, ok := cutStored(body)
	if !ok {
		if err := json.Unmarshal(body, &e); err != nil {
			return told{}, err
		}
	}
	switch {
	case e.Plane != artifact.PlanePolicy:
		return told{cause: e.GeneratedAt}, nil
	case e.Kind != artifact.KindPolicy:
		return toldArtifact(e)
	}
	payload, err := artifact.NoticePayload(e.Payload)
	return told{payload: payload, kind: eventPolicyUpdated, cause: e.GeneratedAt}, err
}

// What surrounds the fields that a frame needs in an envelope of ours: names
// stand in the order of RFC 8785 there.
var (
	beforeTime    = []byte(`{"generated_at":"`)
	beforeName    = []byte(`","kind":"` + artifact.KindPolicy + `","name":"`)
	beforePayload = []byte(`,"payload":{`)
	afterPayload  = []byte(`,"plane":"` + artifact.PlanePolicy + `","schema_version":"` + artifact.SchemaVersion + `","signature":{`)
)

// cutStored finds the fields without parsing. No text can hold what it looks
// for, because quotes in texts are escaped; an object inside the payload could,
// but more than the signature's brace would follow it then. An envelope of any
// other form is not ok.
func cutStored(body []byte) (e stored, ok bool) {
	rest, ok := bytes.CutPrefix(body, beforeTime)
	if !ok {
		return e, false
	}
	i := bytes.Index(rest, beforeName)
	if i < 0 {
		return e, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(rest[:i]))
	if err != nil {
		return e, false
	}
	from, to := bytes.Index(rest, beforePayload), bytes.LastIndex(rest, afterPayload)
	if from < 0 || to < from || bytes.Count(rest[to:], []byte{'{'}) != 1 {
		return e, false
	}
	return stored{artifact.PlanePolicy, artifact.KindPolicy, at, rest[from+len(beforePayload)-1 : to]}, true
}
