package node

import (
	"errors"
	"io"
	"time"
)

// errSilent: a stream that says nothing for so long is a connection that died
// without a word.
var errSilent = errors.New("the stream was silent for too long")

// watched reads a body and calls dead when a read waits too long. Between
// reads no clock runs: a slow caller is not a silent server.
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
