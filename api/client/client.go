// Package client is a client of a plane's HTTP API: every route of package api,
// with typed resources and problems. It is what the command line uses; the routes that
// it does not ask are here for other programs.
//
// A [Client] has a field for each resource, whose methods are what can be done with
// it: c.Policies.Get reads a policy, c.Nodes.Put states a node. What is about the
// plane as a whole, such as Status, is a method of the Client itself.
//
// Reads that a worker cannot answer yet (503) are tried again for as long as
// the context allows and the client has patience; writes never are, but by a
// caller who gives them a key.
package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
)

// Problem is what the plane answers when it cannot do what was asked. Find it
// with errors.As; Code is stable.
type Problem = resource.Problem

// Options has a useful zero value.
type Options struct {
	HTTP      *http.Client  // nil: one without a timeout, since streams last
	Principal string        // who writes; empty: anonymous
	Patience  time.Duration // how long a read is tried again on 503; 0 is 10 s, negative never
	// Turn is how long any request is tried again that the plane did not look at or apply
	// because its principal or its project sends more a second than it may (429): who sends
	// many has them all made, at the rate that there is. 0: never.
	Turn time.Duration
	// Waits is called before each pause of Turn, with its length; nil: nothing is. Requests of
	// several goroutines may call it at once.
	Waits     func(pause time.Duration)
	UserAgent string // empty: edict
}

// Client is a plane's API. Its fields are the resources; they are not to be
// changed. It is safe for concurrent use.
type Client struct {
	Policies   Policies
	Nodes      Nodes
	Datapath   Datapath
	Releases   Releases
	Admission  Admission
	Principals Principals
	Projects   Projects
	Keys       Keys
	Snapshots  Snapshots

	base    *url.URL
	opt     Options
	largest int64 // bytes of a state
}

// New makes a client of the plane at server, such as http://127.0.0.1:8080.
func New(server string, opt Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(server, "/"))
	if err != nil {
		return nil, fmt.Errorf("server address: %w", unquoted(err))
	}
	if base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("server address %q: want http://host:port", base.Redacted())
	}
	if opt.HTTP == nil {
		opt.HTTP = &http.Client{}
	}
	if opt.Patience == 0 {
		opt.Patience = 10 * time.Second
	}
	if opt.UserAgent == "" {
		opt.UserAgent = "edict"
	}
	c := &Client{base: base, opt: opt, largest: maxState}
	c.Policies, c.Nodes, c.Datapath, c.Releases = Policies{c}, Nodes{c}, Datapath{c}, Releases{c}
	c.Admission, c.Principals, c.Projects, c.Keys, c.Snapshots = Admission{c}, Principals{c}, Projects{c}, Keys{c}, Snapshots{c}
	return c, nil
}

// unquoted is why an address cannot be read, without the address, which may have a password.
func unquoted(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// Server is the address of the plane, with the user and the password that it may have.
func (c *Client) Server() string { return c.base.String() }

// Address is the address of the plane as it may be shown: a password in it is "xxxxx".
func (c *Client) Address() string { return c.base.Redacted() }

// UnavailableError means that there was no answer at the plane's address, or no
// HTTP answer.
type UnavailableError struct {
	Server string // as it may be shown
	Err    error
}

// Causes of an UnavailableError where something else than a plane's plain HTTP is at the
// address.
var (
	ErrSpeaksTLS  = errors.New("it speaks TLS: use https://")
	ErrSpeaksHTTP = errors.New("it speaks no TLS: use http://")
	ErrSpeaksNATS = errors.New("that is a NATS server; the API is at the address that the plane has as --http")
)

// Error says what to check.
func (e *UnavailableError) Error() string {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(e.Err, &untrusted):
		return fmt.Sprintf("the plane at %s is not trusted: %v", e.Server, e.Err)
	case errors.Is(e.Err, ErrSpeaksTLS), errors.Is(e.Err, ErrSpeaksHTTP), errors.Is(e.Err, ErrSpeaksNATS):
		return fmt.Sprintf("no answer from the plane at %s: %v", e.Server, e.Err)
	}
	return fmt.Sprintf("no answer from the plane at %s: %v; is it running, and is that its address?", e.Server, e.Err)
}

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Call is what one write may add to its request.
type Call func(*http.Request)

// Key makes a write one write, however often it is sent: a retry under the
// same key, by the same principal, gets the answer of the first.
func Key(key string) Call {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// IfMatch makes a write only while what it changes has this ETag; "*": while it
// exists. Otherwise the write fails with 412 precondition_failed. The ETag of a policy
// is [HeadTag] of its head, that of a node or a principal [VersionTag] of its version.
func IfMatch(etag string) Call {
	return func(r *http.Request) { r.Header.Set("If-Match", etag) }
}

// HeadTag is the ETag of a policy whose head is this revision.
func HeadTag(revision uuid.UUID) string { return strconv.Quote(revision.String()) }

// VersionTag is the ETag of what has this version.
func VersionTag(version uint64) string { return strconv.Quote(strconv.FormatUint(version, 10)) }

// Correlation names what the write belongs to; a revision keeps it.
func Correlation(id string) Call {
	return func(r *http.Request) { r.Header.Set("X-Correlation-Id", id) }
}

// Trace hands on a W3C traceparent.
func Trace(parent string) Call {
	return func(r *http.Request) { r.Header.Set("traceparent", parent) }
}
