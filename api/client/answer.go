package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// between tells what to look at where an answer is none of a plane: something between, such
// as a page to sign in, has answered in its place.
const between = "see what stands between"

// errNoJSON: what is passed on as it came must not be the page of something between.
var errNoJSON = errors.New("it is no JSON; " + between)

// errUnasked: who believed the answer would take what it has, or nothing, for the state.
var errUnasked = errors.New("it answered 304 Not Modified, and was not asked whether something changed; " + between)

// unlike is an answer with a status that no plane has there.
func (c *Client) unlike(res *http.Response) error {
	return &UnavailableError{
		c.Address(),
		fmt.Errorf("it answered %s %s with %s, as no plane does; %s", res.Request.Method, res.Request.URL.Path, res.Status, between),
	}
}

// read reads the body of an answer.
func (c *Client) read(ctx context.Context, res *http.Response) ([]byte, error) {
	if res.StatusCode == http.StatusNoContent {
		return nil, c.unlike(res)
	}
	body, err := io.ReadAll(c.bounded(res.Body))
	if err != nil {
		return nil, c.unfit(ctx, res, err)
	}
	return body, nil
}

// unfit is an answer that cannot be read as what was asked for.
func (c *Client) unfit(ctx context.Context, res *http.Response, err error) error {
	return c.unanswered(ctx, fmt.Errorf("answer of %s: %w", res.Request.URL.Path, err))
}

// decode reads a resource from an answer's body.
func decode(body []byte, out any) error {
	if err := json.Unmarshal(body, out); err != nil {
		if !json.Valid(body) {
			return errNoJSON
		}
		return fmt.Errorf("%w; %s", err, between)
	}
	return complete(body, reflect.ValueOf(out).Elem())
}

// complete refuses a body without the first member that its resource always has, in whatever
// release: {} would pass for a list of nothing, or a plane without an event. The others are
// not asked for, because a plane of another release may lack one.
func complete(body []byte, out reflect.Value) error {
	name, field, ok := firstMember(out)
	if !ok || !field.IsZero() {
		return nil
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(body, &members) // nil where it is no object
	if value, has := members[name]; !has || string(value) == "null" {
		return fmt.Errorf("it has no %q; %s", name, between)
	}
	return nil
}

// firstMember is the first field of a struct that is never left out of its JSON.
func firstMember(of reflect.Value) (name string, field reflect.Value, ok bool) {
	if of.Kind() != reflect.Struct {
		return "", reflect.Value{}, false
	}
	for i := range of.NumField() {
		f := of.Type().Field(i)
		if f.Anonymous {
			if name, field, ok = firstMember(of.Field(i)); ok {
				return name, field, true
			}
			continue
		}
		tag := strings.Split(f.Tag.Get("json"), ",")
		if tag[0] == "" || tag[0] == "-" || slices.Contains(tag, "omitempty") || slices.Contains(tag, "omitzero") {
			continue
		}
		return tag[0], of.Field(i), true
	}
	return "", reflect.Value{}, false
}

// stream opens a stream of server-sent events, whose body is the caller's to close.
func (c *Client) stream(ctx context.Context, q request, lastID string) (*http.Response, error) {
	q.header = http.Header{"Accept": {eventStream}}
	if lastID != "" {
		q.header.Set("Last-Event-ID", lastID)
	}
	res, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != eventStream {
		res.Body.Close()
		return nil, c.unfit(ctx, res, fmt.Errorf("it is no stream of events, but %.80q; %s", media, between))
	}
	return res, nil
}

const eventStream = "text/event-stream"
