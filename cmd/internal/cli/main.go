package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main runs a program until it ends or is asked to (SIGINT, SIGTERM), and returns
// its exit code. What run does not end within grace of the signal, for instance
// because it waits for a file, is left behind.
func Main(grace time.Duration, run func(context.Context) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Within(ctx, func() time.Duration { return grace }, func() int { return run(ctx) })
}

// Within is run's exit code. What run does not end within grace of the end of ctx is left
// behind; grace is asked for then, and 0 is any time.
func Within(ctx context.Context, grace func() time.Duration, run func() int) int {
	ended := make(chan int, 1)
	go func() { ended <- run() }()
	select {
	case code := <-ended:
		return code
	case <-ctx.Done():
	}
	most := grace()
	if most == 0 {
		return <-ended
	}
	select {
	case code := <-ended:
		return code
	case <-time.After(most):
		return interrupted
	}
}

// OutliveReaders has a program that serves go on when nobody reads what it prints any
// more, as when the `tee` of its log ends: the system would end it without a word. What it
// starts is ended by the system as ever.
func OutliveReaders() {
	// Ignored, the signal would be ignored by what it starts, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}
