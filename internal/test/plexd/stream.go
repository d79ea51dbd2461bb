package plexd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// verdict is what an attempt to stream leads to.
type verdict int

const (
	again  verdict = iota // at once: the stream was open
	wait                  // for as long as the plane says
	failed                // back off
	denied                // never again
	absent                // the plane has no streams
)

// follow keeps the stream open until ctx ends.
func (a *Agent) follow(ctx context.Context) {
	pauses := backoff{Periods: a.opt.Periods}
	var failing time.Time // since when; zero: it does not
	for ctx.Err() == nil {
		v, pause := a.connect(ctx)
		mode := Streaming
		switch v {
		case again:
			pauses.reset()
			failing = time.Time{}
		case denied:
			a.setMode(Deaf)
			return
		case absent:
			mode, pause = PullOnly, a.opt.Periods.Reprobe
		case failed:
			if failing.IsZero() {
				failing = a.opt.Now()
			}
			pause = pauses.pause()
			if a.opt.Now().Sub(failing) >= a.opt.Periods.Poll {
				mode, pause = Polling, a.opt.Periods.Pull
				a.pullSoon()
			}
		}
		a.setMode(mode)
		if pause > 0 {
			rest(ctx, pause)
		}
	}
}

func (a *Agent) setMode(m Mode) {
	a.book.note(func(c *Counters) { c.Mode = m })
}

// connect is one attempt: it returns when the stream is over.
func (a *Agent) connect(ctx context.Context) (v verdict, pause time.Duration) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := a.request(ctx, http.MethodGet, "events", nil)
	if err != nil {
		return failed, 0
	}
	req.Header.Set("Accept", "text/event-stream")
	after := a.cursor
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := a.streams.Do(req)
	if err != nil {
		a.book.note(func(c *Counters) { c.Attempts++ })
		return failed, 0
	}
	defer resp.Body.Close()
	a.book.note(func(c *Counters) {
		c.Attempts++
		if c.Answers == nil {
			c.Answers = map[int]int{}
		}
		c.Answers[resp.StatusCode]++
	})
	if resp.StatusCode != http.StatusOK {
		return a.reaction(resp)
	}
	a.setMode(Streaming)
	if a.opt.Connected != nil {
		a.opt.Connected(after)
	}
	if a.opt.Dialect == Current {
		a.pullSoon()
	}
	return a.listen(ctx, cancel, resp.Body), 0
}

// reaction is what a status other than 200 means.
func (a *Agent) reaction(resp *http.Response) (v verdict, pause time.Duration) {
	switch resp.StatusCode {
	case http.StatusBadRequest:
		if a.opt.Dialect == Current {
			a.cursor = ""
		}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return denied, 0
	case http.StatusTooManyRequests:
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds >= 0 {
			return wait, time.Duration(seconds) * time.Second
		}
	case http.StatusNotImplemented:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what came of it
		if a.opt.Dialect == Current && codeOf(body) == "signed_event_bus_not_provisioned" {
			return absent, 0
		}
	}
	return failed, 0
}

// codeOf is the code of a problem.
func codeOf(body []byte) string {
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(body, &problem) // what is no problem has no code
	return problem.Code
}

var errIdle = errors.New("the stream is silent")

// listen reads frames until the stream ends. Whatever ends it but silence
// counts as a clean end.
func (a *Agent) listen(ctx context.Context, cancel context.CancelCauseFunc, body io.Reader) verdict {
	idle := time.AfterFunc(a.opt.Periods.Idle, func() { cancel(errIdle) })
	defer idle.Stop()
	err := scan(&awake{body, idle, a.opt.Periods.Idle}, func(id string, hasID bool, data []byte) {
		if hasID {
			a.cursor = id // before it is read, let alone believed
		}
		a.take(a.cursor, data)
	})
	silent := errors.Is(context.Cause(ctx), errIdle)
	var timeout net.Error
	own := !silent && errors.As(err, &timeout) && timeout.Timeout()
	a.book.note(func(c *Counters) {
		c.Drops++
		switch {
		case silent:
			c.Idles++
		case own:
			c.OwnCuts++
		case errors.Is(err, bufio.ErrTooLong):
			c.LongLines++
		}
	})
	if silent {
		return failed
	}
	return again
}

// awake puts off the end of a stream whenever it brings something.
type awake struct {
	io.Reader
	idle  *time.Timer
	after time.Duration
}

func (r *awake) Read(b []byte) (n int, err error) {
	n, err = r.Reader.Read(b)
	if n > 0 {
		r.idle.Reset(r.after)
	}
	return n, err
}

// scan cuts a stream into frames that have data; others are forgotten, with
// their ids. A line of 64 KiB or more ends it, as any error does.
func scan(r io.Reader, frame func(id string, hasID bool, data []byte)) error {
	lines := bufio.NewScanner(r)
	var id string
	var data []byte
	var hasID, hasData bool
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			if hasData {
				frame(id, hasID, data)
			}
			id, data, hasID, hasData = "", nil, false, false
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":")) // a comment has no name
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			id, hasID = strings.Clone(string(value)), true
		case "data":
			if hasData {
				data = append(data, '\n')
			}
			data, hasData = append(data, value...), true
		}
	}
	return lines.Err()
}
