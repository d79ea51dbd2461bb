package streams

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// awayAfter is how long a leader has not heard of a replica that is away. A server that is
// restarted in order is back before.
const awayAfter = 10 * time.Second

// ReplicaError means that servers which keep the log are away. Writes go on while a majority
// of them is there.
type ReplicaError struct {
	Away     []string // names of the servers
	Replicas int      // how many keep the log
}

// Error says which, what to do, and how many more may go.
func (e *ReplicaError) Error() string {
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
	e := &ReplicaError{Replicas: 1 + len(info.Cluster.Replicas)}
	for _, r := range info.Cluster.Replicas {
		if r.Offline || r.Active > awayAfter {
			e.Away = append(e.Away, r.Name)
		}
	}
	if len(e.Away) == 0 {
		return nil
	}
	return e
}
