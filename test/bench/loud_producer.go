package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// hostileCommand makes this binary a producer that keeps to nothing: it publishes as fast as
// it can, reads no verdict, and connects again at once when its connection is ended.
const hostileCommand = "hostile-producer"

// hostileWindow is how many events it has under way, where it waits for the log at all.
const hostileWindow = 500

// startHostile starts one. Where it floods, it waits for no acknowledgement.
func startHostile(ctx context.Context, e *env, url, token string, floods bool) (*child, error) {
	return startSelf(ctx, e, "hostile", hostileCommand, url, token, fmt.Sprint(floods))
}

// beHostile publishes until it is killed.
func beHostile(readyFile, url, token string, floods bool) error {
	for n := 0; ; {
		c, err := nats.Connect(url, nats.Token(token), nats.CustomInboxPrefix("_INBOX."+hostileName), nats.NoReconnect())
		if err != nil {
			continue // at once
		}
		if err := os.WriteFile(readyFile, []byte("{}"), 0o600); err != nil {
			return err
		}
		n = publishOn(c, n, floods)
		c.Close()
	}
}

// publishOn publishes until the connection ends, from the nth event on.
func publishOn(c *nats.Conn, n int, floods bool) int {
	inbox := c.NewRespInbox()
	acks, err := c.SubscribeSync(inbox)
	if err != nil {
		return n
	}
	for sent := 0; ; sent++ {
		n++
		m := hostileEvent(n)
		if !floods {
			m.Reply = inbox
			if sent >= hostileWindow {
				if _, err := acks.NextMsg(time.Minute); err != nil {
					return n
				}
			}
		}
		if err := c.PublishMsg(m); err != nil {
			return n
		}
	}
}

func hostileEvent(n int) *nats.Msg {
	const nodes = 10_000
	id, node := uuid.NewString(), fmt.Sprintf("busy-%05d", n%nodes)
	return &nats.Msg{
		Subject: wire.LogFilter(busyProject, policy.FamilyNode, node),
		Header:  nats.Header{wire.HeaderMsgID: {id}},
		Data: fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":{"env":"e%d","turn":"t%d"},"addresses":[]}`,
			id, busyProject, node, n%7, n/nodes%5),
	}
}

// hostileName is its principal.
const hostileName = "hostile"

// guardedPlane is a plane with access, where a hostile producer has a token of its own.
func guardedPlane(ctx context.Context, e *env) (s *served, hostile string, err error) {
	own := *e
	file := access.File{}
	tokens := map[policy.PrincipalID]string{}
	for id, r := range map[policy.PrincipalID]policy.Relation{
		"bench":     {Kind: policy.ObjectPlane, Name: policy.RelationAdmin},
		hostileName: {Kind: policy.ObjectProject, ID: busyProject, Name: policy.RelationOperator},
	} {
		text, kept := access.NewToken(uuid.New(), time.Time{})
		file[id] = &access.Entry{Principal: policy.Principal{Kind: policy.Service, Tokens: []policy.Token{kept}}, Relations: []policy.Relation{r}}
		tokens[id] = text
	}
	path := filepath.Join(e.dir, "access.json")
	if err := errors.Join(os.MkdirAll(e.dir, 0o700), file.Write(path)); err != nil {
		return nil, "", err
	}
	own.token = tokens["bench"]
	if s, err = serveEdict(ctx, &own, "--access", path); err != nil {
		return nil, "", err
	}
	e.binary, s.token = own.binary, own.token
	return s, tokens[hostileName], nil
}

// bearer shows a token with each request.
type bearer struct {
	token string
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.RoundTripper.RoundTrip(r)
}
