package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/edictdev/edict/internal/api"
)

// elsewhere asks at the address of operators' routes what the plane does not serve at
// its own. Which routes these are, the plane decides.
type elsewhere struct {
	next http.RoundTripper
	host string // of the plane's own address
	to   *url.URL
}

// RoundTrip implements http.RoundTripper.
func (e *elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := e.next.RoundTrip(r)
	if err != nil || r.URL.Host != e.host || resp.StatusCode != http.StatusNotFound || !noRoute(resp) {
		return resp, err
	}
	again := r.Clone(r.Context())
	again.URL.Scheme, again.URL.Host, again.Host = e.to.Scheme, e.to.Host, ""
	switch {
	case r.GetBody != nil:
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // what was answered counts
		}
	case r.Body != nil && r.Body != http.NoBody:
		return resp, nil // it is read already
	}
	resp.Body.Close()
	return e.next.RoundTrip(again)
}

// noRoute reports whether an answer says that there is no such route. It can still be
// read afterwards.
func noRoute(resp *http.Response) bool {
	const most = 64 << 10
	body, _ := io.ReadAll(io.LimitReader(resp.Body, most)) // what is cut is no problem document
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	var problem struct{ Code string }
	return json.Unmarshal(body, &problem) == nil && problem.Code == api.CodeRouteNotFound
}
