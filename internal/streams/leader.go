package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/nats-io/nats.go/jetstream"
)

// A leader that was cut off or paused does not know at once that the others elected
// another one, and goes on answering with the end of the stream as it was. Servers
// send each other a heartbeat every second, wait at least four for the next before they
// elect another leader, and a leader that hears of no majority steps down after ten; even
// then it answers with what it has.
const (
	// followedWithin is the time within which a leader that is believed has heard from a
	// majority of the replicas: well below that of an election, by twice what an answer
	// may have been on its way.
	followedWithin = 2 * time.Second
	// replacedWithin is the time after which a leader that still reaches a replica knows
	// that this one follows another: a heartbeat, and its way back.
	replacedWithin = 1500 * time.Millisecond
	// leaderAgain is the pause before a leader is asked again.
	leaderAgain = 100 * time.Millisecond
)

// errNotFollowed: the server that answers for a stream has not heard from a majority
// lately, and may have been replaced, or has stepped down.
var errNotFollowed = errors.New("who answers has not heard from a majority of the replicas lately, so another server may lead by now")

// followed reports whether who gave the answer leads the stream: a majority of the
// replicas, itself among them, followed it a moment ago.
func followed(info *jetstream.StreamInfo) bool {
	switch {
	case info.Cluster == nil:
		return true
	case info.Cluster.Leader == "": // a server that stepped down answers, too
		return false
	}
	heard := 1
	for _, r := range info.Cluster.Replicas {
		if r.Active > 0 && r.Active <= followedWithin { // 0: never
			heard++
		}
	}
	return 2*heard > 1+len(info.Cluster.Replicas)
}

// infoOf asks a stream's leader, again until the leader is one that is followed.
func infoOf(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	var doubt error // what the last answer lacked: it says more than that time is over
	for {
		s, err := js.Stream(ctx, name)
		switch {
		case err != nil && doubt != nil && ctx.Err() != nil:
			return nil, doubt
		case err != nil:
			return nil, err
		}
		info := s.CachedInfo()
		if followed(info) {
			return info, nil
		}
		doubt = fmt.Errorf("%w (%s)", errNotFollowed, leaderText(info.Cluster.Leader))
		if backoff.Sleep(ctx, leaderAgain) != nil {
			return nil, doubt
		}
	}
}

func leaderText(name string) string {
	if name == "" {
		return "it has no leader now"
	}
	return "leader " + name
}

// Reached is the log's head, or what it was when it had reached a sequence. A head
// below that sequence is what the leader still says after the time in which one that
// was replaced would know.
func (l *Log) Reached(ctx context.Context, seq uint64) (head uint64, err error) {
	began := time.Now()
	for {
		head, err = l.Head(ctx)
		if err != nil || head >= seq || l.replicas == 1 || time.Since(began) >= replacedWithin {
			return head, err
		}
		if err := backoff.Sleep(ctx, leaderAgain); err != nil {
			return 0, err
		}
	}
}
