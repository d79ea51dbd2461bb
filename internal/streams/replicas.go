package streams

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// awayAfter is how long a leader has not heard of a replica that is away. A server that is
// restarted in order is back before.
const awayAfter = 10 * time.Second

// ReplicaError means that servers which keep the log are away. Writes go on while a majority
// of them is there.
type ReplicaError struct {
	Away     []string // names of the servers
	Replicas int      // how many keep the log, or are to
	Lacking  int      // how many of them have no copy
}

// Error says which, what to do, and how many more may go.
func (e *ReplicaError) Error() string {
	if e.Lacking > 0 {
		heard := ""
		if len(e.Away) > 0 {
			heard = ", and " + strings.Join(e.Away, ", ") + " cannot be heard"
		}
		return fmt.Sprintf("%d of the %d servers that are to keep %s have no copy%s: see that as many servers run and have room (nats stream info %s); if that does not help, restart the one that leads it",
			e.Lacking, e.Replicas, LogStream, heard, LogStream)
	}
	after := "nothing can be written once one more goes"
	if spare := (e.Replicas-1)/2 - len(e.Away); spare > 0 {
		after = fmt.Sprintf("nothing can be written once more than %d go besides", spare)
	}
	return fmt.Sprintf("of the %d servers that keep %s, %s cannot be heard: start them again, or replace them; %s",
		e.Replicas, LogStream, strings.Join(e.Away, ", "), after)
}

// Replicas is a *ReplicaError while servers that keep the log are away; nil: all are there.
func (l *Log) Replicas(ctx context.Context) error {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err != nil || info.Cluster == nil {
		return err
	}
	return replicasOf(info)
}

// replicasOf is Replicas by what the stream's leader says.
func replicasOf(info *jetstream.StreamInfo) error {
	have := 1 + len(info.Cluster.Replicas)
	e := &ReplicaError{Replicas: max(have, info.Config.Replicas), Lacking: max(0, info.Config.Replicas-have)}
	for _, r := range info.Cluster.Replicas {
		if r.Offline || r.Active > awayAfter {
			e.Away = append(e.Away, r.Name)
		}
	}
	if len(e.Away) == 0 && e.Lacking == 0 {
		return nil
	}
	return e
}
