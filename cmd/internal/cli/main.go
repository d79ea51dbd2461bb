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
	ended := make(chan int, 1)
	go func() { ended <- run(ctx) }()
	select {
	case code := <-ended:
		return code
	case <-ctx.Done():
	}
	select {
	case code := <-ended:
		return code
	case <-time.After(grace):
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
