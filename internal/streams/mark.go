package streams

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/edictdev/edict/internal/wire"
)

// HeaderMark is the mark of an event that a worker of the plane appended.
const HeaderMark = "Edict-Mark"

// MarkerKey names the marker, with its secret, in the bucket of what workers agree on.
const MarkerKey = "marker"

// markSize is how much of a mark is kept with each event: 96 bits.
const markSize = 12

// Marker tells the events that workers of the plane appended from those of
// other producers, whose headers say whatever they like. Its secret lies where
// the plane's own account alone can read; all workers share it.
type Marker struct {
	secret []byte
	from   uint64 // the last event of before: those have no marks
}

type markerRecord struct {
	Secret []byte `json:"secret"`
	From   uint64 `json:"from"`
}

// OpenMarker reads the plane's marker, or makes it: head is then the last
// event that has no mark.
func OpenMarker(ctx context.Context, b *Bucket, head uint64) (*Marker, error) {
	value, _, err := b.Get(ctx, MarkerKey)
	if errors.Is(err, ErrNotFound) {
		made := markerRecord{make([]byte, sha256.Size), head}
		rand.Read(made.Secret)        // never fails
		value, _ = json.Marshal(made) // bytes and a number
		_, err = b.Create(ctx, MarkerKey, value, 0)
		if errors.Is(err, ErrWrongSequence) { // another worker was first
			value, _, err = b.Get(ctx, MarkerKey)
		}
	}
	if err != nil {
		return nil, err
	}
	var r markerRecord
	if err := json.Unmarshal(value, &r); err != nil || len(r.Secret) != sha256.Size {
		return nil, fmt.Errorf("bucket %s, key %s: it holds no marker; delete the key, and events of before are shown as they name themselves", b.Name(), MarkerKey)
	}
	return &Marker{r.Secret, r.From}, nil
}

// mark covers all that an audit says of an event.
func (v *Marker) mark(subject string, body []byte, principal, correlation string) string {
	h := hmac.New(sha256.New, v.secret)
	sum := sha256.Sum256(body)
	for _, field := range [...]string{subject, principal, correlation, string(sum[:])} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(field))))
		h.Write([]byte(field))
	}
	return base64.RawStdEncoding.EncodeToString(h.Sum(nil)[:markSize])
}

// Marked reports whether a worker of the plane appended an event with the
// headers that it has, and whether the event's mark proves that. Of events of before
// it says that one did: nobody can tell.
func (v *Marker) Marked(m *Message) (ours, proved bool) {
	want := v.mark(m.Subject, m.Body, m.Get(wire.HeaderPrincipal), m.Get(wire.HeaderCorrelation))
	proved = hmac.Equal([]byte(want), []byte(m.Get(HeaderMark)))
	return proved || m.Seq <= v.from, proved
}

// Mark has the log's events marked from now on. It is called before the first
// is published.
func (l *Log) Mark(v *Marker) { l.marker = v }

// MarkFromHead opens the plane's marker and has events marked by it. Where it is made
// now, the log's last event, which is returned too, is the last one without a mark.
func (l *Log) MarkFromHead(ctx context.Context) (marker *Marker, last uint64, err error) {
	state, err := l.State(ctx)
	if err != nil {
		return nil, 0, err
	}
	meta, err := OpenMeta(ctx, l.c)
	if err != nil {
		return nil, 0, err
	}
	if marker, err = OpenMarker(ctx, meta, state.Last); err == nil {
		l.Mark(marker)
	}
	return marker, state.Last, err
}

// outgoing is the message that an event is published as, marked.
func (l *Log) outgoing(a Append) Outgoing {
	o := outgoing(a)
	if l.marker != nil {
		o.Header = append(o.Header, HeaderMark, l.marker.mark(o.Subject, o.Body, a.Principal, a.Correlation))
	}
	return o
}

// Derive is a secret of the plane for another purpose, which says nothing of the marker's.
func (v *Marker) Derive(purpose string) []byte {
	h := hmac.New(sha256.New, v.secret)
	h.Write([]byte("derived for " + purpose))
	return h.Sum(nil)
}
