package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
)

// LogFrame is what a stream of the log's events says: an event, or that the log's end was
// met.
type LogFrame struct {
	Event *resource.LogEvent // nil: the log's end was met, for the first time on this stream
	Seq   uint64             // what a stream that goes on begins behind
}

// Events follows the log, as a worker folds it: the events of the project, or with uuid.Nil
// all. filter has the route's parameters (type, policy, node, since). They come behind the
// log sequence after; 0: from now on, or from since. The sequence ends with the stream, or
// with an error; the next one begins behind the last Seq.
func (c *Client) Events(ctx context.Context, project uuid.UUID, filter url.Values, after uint64) iter.Seq2[LogFrame, error] {
	return func(yield func(LogFrame, error) bool) {
		body, err := c.events(ctx, project, filter, after)
		if err != nil {
			yield(LogFrame{}, err)
			return
		}
		defer body.Close()
		for frame, err := range logFrames(body) {
			if err != nil {
				err = c.unanswered(ctx, fmt.Errorf("follow the log: %w", err))
			}
			if !yield(frame, err) || err != nil {
				return
			}
		}
	}
}

func (c *Client) events(ctx context.Context, project uuid.UUID, filter url.Values, after uint64) (io.ReadCloser, error) {
	q := request{method: http.MethodGet, path: []string{"v1", "events"}, query: filter}
	if project != uuid.Nil {
		q.path = []string{"v1", "projects", project.String(), "events"}
	}
	last := ""
	if after > 0 {
		last = strconv.FormatUint(after, 10)
	}
	res, err := c.stream(ctx, q, last)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// maxLogFrame is more than the plane puts into one line.
const maxLogFrame = 16 << 20

// logFrames reads the frames of a stream.
func logFrames(from io.Reader) iter.Seq2[LogFrame, error] {
	return func(yield func(LogFrame, error) bool) {
		lines := bufio.NewScanner(from)
		lines.Buffer(nil, maxLogFrame)
		kind := ""
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				kind = value
			case "data":
				frame, err := readLogFrame(kind, value)
				if !yield(frame, err) || err != nil {
					return
				}
			}
		}
		if err := lines.Err(); err != nil {
			yield(LogFrame{}, err)
		}
	}
}

func readLogFrame(kind, data string) (LogFrame, error) {
	var e resource.LogEvent
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return LogFrame{}, err
	}
	if kind != "log_event" {
		return LogFrame{Seq: e.Seq}, nil
	}
	return LogFrame{&e, e.Seq}, nil
}

// SeqAt is the last event of the log that was stored at a moment or before.
func (c *Client) SeqAt(ctx context.Context, at time.Time) (resource.LogMoment, error) {
	return get[resource.LogMoment](ctx, c, url.Values{"at": {at.UTC().Format(time.RFC3339Nano)}}, "v1", "log", "seq")
}
