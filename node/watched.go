package node

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// newTransport makes connections of which one that has brought nothing for as long as
// silence is closed. Over HTTP/2 a connection outlives its requests, and the next ones
// would go by it for as long as TCP tries: a quarter of an hour, when a host is gone.
func newTransport(silence time.Duration) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence / 2, PingTimeout: silence / 2}
	return t
}

// errSilent ends a connection that has brought nothing for Options.Silence.
var errSilent = errors.New("the stream was silent for too long")

// watched reads a body and calls dead when one read waits too long. The time between
// reads does not count: a slow caller is not a silent server.
type watched struct {
	r       io.Reader
	silence time.Duration
	timer   *time.Timer
}

func newWatched(r io.Reader, silence time.Duration, dead func()) *watched {
	t := time.AfterFunc(silence, dead)
	t.Stop()
	return &watched{r, silence, t}
}

// Read reads under the clock.
func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.silence)
	defer w.timer.Stop()
	return w.r.Read(p)
}
