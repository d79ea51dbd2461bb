package streams

import (
	"context"

	"github.com/nats-io/nats-server/v2/server"
)

// Head is the sequence of the log's last event, as the log's leader has it
// after the call began. An embedded server that stands alone is the leader: it
// is looked at in this process, where a request would cost a hundred times as
// much. That look waits for the server's locks, and so for its disk, whatever
// becomes of ctx. Those who ask together share a look that begins after they
// asked.
func (l *Log) Head(ctx context.Context) (uint64, error) { return l.heads.last(ctx) }

func (l *Log) readHead(ctx context.Context) (uint64, error) {
	if s := l.c.server; s != nil {
		if last, ok := s.last(LogStream); ok {
			return last, nil
		}
	}
	state, err := l.State(ctx)
	return state.Last, err
}

// last is the last sequence of a stream of ours. Not ok: ask over a connection,
// because the server is down or starting, or has nothing in such a stream.
func (s *Server) last(stream string) (seq uint64, ok bool) {
	if !s.mu.TryRLock() {
		return 0, false
	}
	run := s.run
	s.mu.RUnlock()
	if run == nil {
		return 0, false
	}
	account, err := run.JszAccount(&server.JSzOptions{Account: string(AccountPlane), Streams: true})
	if err != nil {
		return 0, false
	}
	for i := range account.Streams {
		if d := &account.Streams[i]; d.Name == stream {
			return d.State.LastSeq, d.State.LastSeq > 0
		}
	}
	return 0, false
}
