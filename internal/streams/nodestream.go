package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/wire"
)

// Names of streams over the subjects of nodes. Nothing of the plane reads them.
const (
	// NodeEventsStream is what CreateNodeStream makes.
	NodeEventsStream = "EDICT_NODE_EVENTS"
	// OldNodesStream is what the plane of older releases kept for itself.
	OldNodesStream = "EDICT_NODES"
)

// nodeEventsDuplicates is how long the server drops the twin of a message that
// two workers published while a partition went from one to the other.
const nodeEventsDuplicates = 2 * time.Minute

// NodeEvents is a stream over the subjects of nodes, as it is.
type NodeEvents struct {
	Created time.Time
	State
}

// CreateNodeStream makes a stream that keeps the last message of each subject of
// a node: for durable consumers, and for those who want to know what was said
// last while the plane is down. As many servers keep it as keep the log, unless the connection
// asks for another number. made is false where it was there already.
func CreateNodeStream(ctx context.Context, c *Conn) (n NodeEvents, made bool, err error) {
	replicas := c.Replicas()
	if !c.asked {
		log, err := c.streamInfo(ctx, LogStream)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return n, false, fmt.Errorf("make the node stream: %w", err)
		}
		if err == nil {
			replicas = log.Config.Replicas
		}
	}
	cfg := jetstream.StreamConfig{
		Name:              NodeEventsStream,
		Description:       "What Edict told its nodes last. Edict does not need it",
		Subjects:          []string{wire.PrefixNode + ">"},
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		MaxMsgsPerSubject: 1,
		Duplicates:        nodeEventsDuplicates,
		AllowDirect:       true,
		Metadata:          map[string]string{},
	}
	info, made, err := c.openStream(ctx, cfg, nodeEventsFaults)
	if err != nil {
		return n, false, fmt.Errorf("make the node stream: %w", err)
	}
	return NodeEvents{info.Created.UTC(), stateOf(info)}, made, nil
}

func nodeEventsFaults(cfg jetstream.StreamConfig) []Fault {
	var f faults
	f.subjects(cfg.Subjects, []string{wire.PrefixNode + ">"})
	f.unless(cfg.MaxMsgsPerSubject == 1, "max_msgs_per_subject", cfg.MaxMsgsPerSubject, "1: it holds the last message of each subject")
	f.unless(cfg.Duplicates >= nodeEventsDuplicates, "duplicate_window", cfg.Duplicates, "2m or more: what two workers publish is one message")
	return f
}

// DeleteNodeStream deletes it; ErrNotFound when there is none.
func DeleteNodeStream(ctx context.Context, c *Conn) error {
	ctx, cancel := c.during(ctx, requestTimeout)
	defer cancel()
	err := c.js.DeleteStream(ctx, NodeEventsStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("stream %s: %w", NodeEventsStream, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("delete the node stream: %w", err)
	}
	return nil
}

// HasNodeStream reports whether it is there.
func HasNodeStream(ctx context.Context, c *Conn) (bool, error) {
	return hasStream(ctx, c, NodeEventsStream)
}

// HasOldNodes reports whether the stream of an older release is there still.
func HasOldNodes(ctx context.Context, c *Conn) (bool, error) {
	return hasStream(ctx, c, OldNodesStream)
}

func hasStream(ctx context.Context, c *Conn, stream string) (bool, error) {
	_, err := c.streamInfo(ctx, stream)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// WarnOldNodes says once that it is. It is left alone.
func WarnOldNodes(ctx context.Context, c *Conn) error {
	there, err := HasOldNodes(ctx, c)
	if err == nil && there {
		c.log.Warn("the stream of an older edict is not used any more, but takes disk and messages: delete it when no worker of that release runs",
			"stream", OldNodesStream)
	}
	return err
}

// stored are the subjects of all streams that take in messages of nodes, whatever
// their names; the one of an older release does, too.
func (c *Conn) stored(ctx context.Context) (subjects []string, err error) {
	ctx, cancel := c.during(ctx, requestTimeout)
	defer cancel()
	list := c.js.ListStreams(ctx, jetstream.WithStreamListSubject(wire.PrefixNode+">"))
	for info := range list.Info() {
		subjects = append(subjects, info.Config.Subjects...)
	}
	return subjects, list.Err()
}
