package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// serverLog hands the embedded server's lines to slog: warnings and errors as
// such, what it merely notes at debug level. The first fatal line is kept,
// because the server reports a failed start nowhere else.
type serverLog struct {
	log *slog.Logger

	mu    sync.Mutex
	fatal error
}

func (l *serverLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func (l *serverLog) line(level slog.Level, format string, v []any) string {
	text := fmt.Sprintf(format, v...)
	l.log.Log(context.Background(), level, text, "component", "nats-server")
	return text
}

func (l *serverLog) Noticef(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.line(slog.LevelWarn, format, v) }
func (l *serverLog) Errorf(format string, v ...any)  { l.line(slog.LevelError, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.line(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any)  {}

func (l *serverLog) Fatalf(format string, v ...any) {
	text := l.line(slog.LevelError, format, v)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		l.fatal = errors.New(text)
	}
}
