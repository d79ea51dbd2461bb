// Package attacks is what tenants, nodes and strangers try against each other, over
// HTTP and over NATS, as a table: who tries what, and how it is refused. Whoever
// runs it makes a plane with the principals of [Cast], and looks afterwards that
// nothing came of it.
package attacks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// The two tenants. Everything of the victim's is there before anybody tries.
const (
	VictimProject   = "00000000-0000-4000-8000-00000000000a"
	AttackerProject = "00000000-0000-4000-8000-00000000000b"
	VictimNode      = "victim"
	AttackerNode    = "attacker"
)

// Cast are the principals by name, each with its kind and its relations.
var Cast = map[string][]string{
	"alice":    {"person", "project:" + VictimProject + "#operator", "project:" + VictimProject + "#manage"},
	"victim":   {"node", "node:" + VictimProject + "/" + VictimNode + "#agent"},
	"attacker": {"node", "node:" + AttackerProject + "/" + AttackerNode + "#agent"},
	"mallory":  {"person", "project:" + AttackerProject + "#operator", "project:" + AttackerProject + "#manage"},
	"operator": {"service", "project:" + AttackerProject + "#operator"},
	"reader":   {"person", "project:" + AttackerProject + "#read"},
	"watcher":  {"service", "plane#read"},
}

// Plane is where the attempts go.
type Plane struct {
	HTTP, NATS string            // host:port
	Tokens     map[string]string // by principal
	Policy     string            // the victim's, by id
	Revision   string            // its head

	tried int
}

// Tried is how many attempts there were.
func (p *Plane) Tried() int { return p.tried }

// token is what a name shows; nothing: it shows nothing.
func (p *Plane) token(who string) string {
	switch who {
	case "nobody":
		return ""
	case "forger":
		return "edt_0000000000000000000000000000000000000000000"
	}
	return p.Tokens[who]
}

// Connect is a connection of a principal over NATS, until the test ends.
func (p *Plane) Connect(t testing.TB, who string) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.NoReconnect(), nats.Timeout(10 * time.Second), nats.CustomInboxPrefix("_INBOX." + who),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if token := p.token(who); token != "" {
		opts = append(opts, nats.Token(token))
	}
	nc, err := nats.Connect("nats://"+p.NATS, opts...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// Ask sends a request of a principal over HTTP. A stream is not read.
func (p *Plane) Ask(t testing.TB, who, method, path string, body []byte, headers ...string) (status int, answer []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.HTTP+path, bytes.NewReader(body))
	require.NoError(t, err)
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if token := p.token(who); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return resp.StatusCode, nil
	}
	answer, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, answer
}

// allowed is a fault: an attempt was not refused.
func (p *Plane) allowed(t testing.TB, who, format string, args ...any) {
	t.Helper()
	t.Errorf("%s: %s: it is not refused", who, fmt.Sprintf(format, args...))
}
