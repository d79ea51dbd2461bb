package node

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// Options has a useful zero value: pull first, trust the keys the plane names,
// wait between 200 ms and 10 s for a server that is away.
type Options struct {
	// From is the event id to begin after. Nil: pull the state, and begin after
	// it, so that the rows are complete from the start.
	From *policy.EventID
	// Tables says that the node enforces tables: it is notified of every change of its
	// own table.
	Tables bool
	// State is a file that keeps the cursor and the rows, so that a follower
	// made later goes on where this one ended; then From does not count. It is
	// replaced as a whole after each burst of events. Empty: nothing is kept.
	State string
	// NATS is the URL of a server, or several with commas between: messages
	// come over NATS, and only what must be pulled over HTTP. Empty: all comes
	// over HTTP.
	NATS string
	// Token, or what is in the file Creds, read at each connect, and TLS are
	// shown to the NATS server; empty: none.
	Token string
	// TokenFrom is asked for the token at each connect, in place of Token: one that was
	// renewed is shown then. nil: it is Token.
	TokenFrom func() string
	Creds     string
	TLS       *tls.Config
	// Trust holds the keys to verify with. Nil: those that the plane shows at
	// /v1/keys at the start. The follower changes it: a new key that a trusted one
	// announces is added, and the announcing key expires when the transition ends.
	Trust *artifact.TrustSet
	// HTTP must not time a request out as a whole: streams have no end.
	HTTP *http.Client
	// MinWait and MaxWait bound the pause before a new try.
	MinWait, MaxWait time.Duration
	// Silence is how long a stream may send nothing, not even a comment, before its
	// connection counts as lost; 0 is 60 s, twice what the plane promises.
	Silence time.Duration
	// Connected is called when a stream is open; may be nil.
	Connected func()
	// Trouble is called with the reason when a connection ends, and with the pause that
	// follows; may be nil. Log gets both too.
	Trouble func(err error, pause time.Duration)
	Log     *slog.Logger
	Now     func() time.Time // for the age of notices; nil: time.Now

	// AskEvery is how often a follower over NATS sends a replay request without a sign
	// that something is missing, and how often one over SSE pulls while it cannot read
	// what comes; 0 is 30 s.
	AskEvery time.Duration
	// Pending bounds the live messages over NATS that wait to be read. Further ones are
	// dropped, and requested. 0 leaves it to the client library.
	Pending int
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.MinWait, 200*time.Millisecond)
	def(&o.MaxWait, 10*time.Second)
	def(&o.Silence, time.Minute)
	def(&o.AskEvery, 30*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Connected == nil {
		o.Connected = func() {}
	}
	if o.Trouble == nil {
		o.Trouble = func(error, time.Duration) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// accepted is the form of events to request: another reader of the node may use
// another form.
func (o Options) accepted() string {
	if o.Tables {
		return "text/event-stream;dialect=batch;tables=true"
	}
	return "text/event-stream;dialect=batch"
}
