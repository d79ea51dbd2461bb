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
