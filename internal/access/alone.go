package access

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/streams"
)

// Alone keeps others who call it from a file, which each writes whole, until release: each
// keeps what the one before wrote. It waits for its turn a while, and then the error is
// syscall.EWOULDBLOCK. A file of the same name with .lock after it stays.
func Alone(ctx context.Context, path string) (release func(), err error) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lock := path + ".lock"
	for again := backoff.Steady(20 * time.Millisecond); ; {
		release, err = streams.LockFile(lock)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return release, err
		}
		if again.Pause(ctx) != nil {
			return nil, fmt.Errorf("another command has %s; try again when it has ended: %w", lock, err)
		}
	}
}
