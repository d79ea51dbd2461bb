package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

// Ready asks a handler of the API, within the process, whether it is ready: its
// listener is open, and whom its certificate names is for others to verify. host
// is the address that it answers at. The error says why it is not.
func Ready(ctx context.Context, handler http.Handler, host string) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	req.Host, req.RemoteAddr = host, host
	defer func() { // as a server does with who left: ctx ended
		switch r := recover(); r {
		case nil:
		case http.ErrAbortHandler:
			err = http.ErrAbortHandler
		default:
			panic(r)
		}
	}()
	answer := answerRecorder{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(&answer, req)
	if answer.status != http.StatusOK {
		return fmt.Errorf("%d %s: %s", answer.status, http.StatusText(answer.status), answer.body.String())
	}
	return nil
}

// AwaitReady asks ready until it says nil, or ctx ends: false. waiting hears now
// and then why it does not.
func AwaitReady(ctx context.Context, ready func(context.Context) error, waiting func(err error)) bool {
	const (
		pause    = 10 * time.Millisecond
		sayEvery = 2 * time.Second
	)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for said := time.Now(); ; {
		err := ready(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		if time.Since(said) > sayEvery {
			said = time.Now()
			waiting(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// answerRecorder takes an answer of a handler.
type answerRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *answerRecorder) Header() http.Header         { return r.header }
func (r *answerRecorder) WriteHeader(status int)      { r.status = status }
func (r *answerRecorder) Write(b []byte) (int, error) { return r.body.Write(b) }
