package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// errBehind: the worker that was asked has not read so far; ask again.
var errBehind = errors.New("behind")

// hear takes a live message. false: ask, because something before it is missing,
// or it is about another log.
func (f *follower) hear(m *nats.Msg) bool {
	e, err := f.keys.open(m, f.node)
	if err == nil && m.Subject != "edict.node."+f.node+"."+e.name {
		err = fmt.Errorf("it belongs on the subject of %s", e.name)
	}
	if err != nil { // somebody else's: it changes nothing. Or the plane has a new key, which an answer announces
		fmt.Fprintln(os.Stderr, "follower: dropped a message on", m.Subject+":", err)
		return !errors.Is(err, errUnknownKey)
	}
	prev, err := strconv.ParseUint(m.Header.Get("Edict-Prev"), 10, 64)
	switch {
	case err != nil || e.log != f.log || e.base != f.base:
		return false // not believed: it may be an old message under an id to come
	case e.resync:
		f.confirmed = 0
		return false // ask for everything
	case e.id <= f.acted:
		return true // a double: of another publisher, or of an answer
	case prev > f.acted:
		return false // a hole; the answer has this message too
	}
	f.act(e)
	return true
}

// act takes what a message says.
func (f *follower) act(e event) {
	f.acted = e.id
	if e.policy == "" {
		return // about an artifact or the table, which this program does not have
	}
	if was := f.rows[e.policy]; was.fingerprint != e.row.fingerprint {
		f.changed(e.policy, e.row)
	}
	f.rows[e.policy] = e.row
}

// ask asks for what stands above what the last answer confirmed, and takes it.
func (f *follower) ask(ctx context.Context) error {
	list, upTo, resync, err := f.question(ctx, f.confirmed)
	if err != nil {
		return err
	}
	late := false
	for _, e := range list {
		switch {
		case e.resync:
			resync = true
		case e.id > f.acted:
		case e.policy != "" && e.id > f.rows[e.policy].id && e.row.fingerprint != f.rows[e.policy].fingerprint:
			late = true // its place has passed
		}
	}
	if resync || late {
		return f.pull(ctx)
	}
	for _, e := range list {
		if e.id > f.acted {
			f.act(e)
		}
	}
	f.confirmed, f.acted = upTo, max(f.acted, upTo)
	return nil
}

// pull takes everything anew. With NATS alone that is what stands above nothing;
// GET /v1/nodes/<node>/state would do as well.
func (f *follower) pull(ctx context.Context) error {
	list, upTo, _, err := f.question(ctx, 0)
	if err != nil {
		return err
	}
	before := f.rows
	f.rows = map[string]row{}
	for _, e := range list {
		if e.policy != "" {
			f.rows[e.policy] = e.row
			if before[e.policy].fingerprint != e.row.fingerprint {
				f.changed(e.policy, e.row)
			}
		}
		delete(before, e.policy)
	}
	for policy, was := range before {
		if string(was.rules) != "[]" {
			f.changed(policy, row{id: upTo, rules: []byte("[]")})
		}
	}
	f.confirmed, f.acted = upTo, upTo // those of another log may be lower
	return nil
}

// question asks one worker of the plane. list is everything that the node is sent
// above an id, complete up to another.
func (f *follower) question(ctx context.Context, after uint64) (list []event, upTo uint64, resync bool, err error) {
	inbox := f.nc.NewInbox()
	answers, err := f.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, 0, false, err
	}
	defer answers.Unsubscribe()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := f.nc.PublishRequest("edict.replay.node."+f.node, inbox, fmt.Appendf(nil, `{"after":"%d"}`, after)); err != nil {
		return nil, 0, false, err
	}
	for {
		m, err := answers.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return nil, 0, false, errBehind // no worker is there yet
		}
		if err != nil {
			return nil, 0, false, err
		}
		switch text := m.Header.Get("Edict-Error"); {
		case text == "behind":
			return nil, 0, false, errBehind
		case text != "":
			return nil, 0, false, fmt.Errorf("the plane says %s of node %s", text, f.node)
		case m.Header.Get("Edict-Event") == "signing_key_rotated":
			if err := f.keys.rotate(m.Data, f.node); err != nil {
				return nil, 0, false, fmt.Errorf("announcement of a key: %w", err)
			}
			continue
		case m.Header.Get("Edict-Up-To") != "":
			upTo, err = strconv.ParseUint(m.Header.Get("Edict-Up-To"), 10, 64)
			seq, noSeq := strconv.ParseUint(m.Header.Get("Edict-Log-Seq"), 10, 64)
			f.log, f.base = m.Header.Get("Edict-Log"), upTo>>22-seq
			return list, upTo, m.Header.Get("Edict-Resync") == "true", errors.Join(err, noSeq)
		}
		e, err := f.keys.open(m, f.node)
		if err != nil {
			return nil, 0, false, fmt.Errorf("a message of an answer: %w", err)
		}
		list = append(list, e)
	}
}
