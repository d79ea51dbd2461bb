package convergence

import (
	"context"

	"github.com/edictdev/edict/internal/streams"
)

// ReportsOn opens the stream of reports on conn, for Options.Open.
func ReportsOn(conn *streams.Conn) func(ctx context.Context) (Reports, error) {
	return func(ctx context.Context) (Reports, error) {
		r, err := streams.OpenReports(ctx, conn)
		if err != nil {
			return nil, err // not a nil stream in an interface
		}
		return r, nil
	}
}
