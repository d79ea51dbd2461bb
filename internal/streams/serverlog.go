package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

// serverLog hands the embedded server's lines to slog: warnings and errors as
// such, what it merely notes at debug level. The first fatal line is kept,
// because the server reports a failed start nowhere else.
type serverLog struct {
	log     *slog.Logger
	crowded rate.Sometimes // warns of clients that are refused since there are too many
	clients *rate.Limiter  // of lines about single clients

	mu    sync.Mutex
	fatal error
	store error // the first line that says that a store takes nothing more
}

// Lines about single clients that are said at once, and each second. One client may cause any
// number, and each is written before the server goes on.
const clientBurst, clientRate = 30, 1

func newServerLog(log *slog.Logger) *serverLog {
	return &serverLog{log: log, crowded: rate.Sometimes{Interval: time.Minute}, clients: rate.NewLimiter(clientRate, clientBurst)}
}

// aboutClient begins every line of the server about one client. What follows has words of the
// client's own: its name, its subjects, and what it sent that is no protocol.
var aboutClient = regexp.MustCompile(`^\S* - (cid|wid|mid|mid_ws|rid|gid|lid|lid_ws):\d+`)

// quoted are words of a client in other lines, such as a delay that is none. A line about a
// store that fails quotes nothing.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// crowd is the rest of a line about a client that is refused since there are too many. It has no
// name yet, so nobody's name is taken for it.
var crowd = " - " + server.ErrTooManyConnections.Error()

// storeFailures are what the server says when a stream could not write. It
// tells publishers nothing then: their messages stay without an answer.
var storeFailures = []string{"Critical write error", "critical write error", "failed to store a msg", "will be DISABLED", "disabling JetStream", "no space left"}

// storeFailure is the first such line.
func (l *serverLog) storeFailure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store
}

func (l *serverLog) noteStore(text string) {
	if aboutClient.MatchString(text) {
		return
	}
	said := quoted.ReplaceAllString(text, "")
	if !slices.ContainsFunc(storeFailures, func(s string) bool { return strings.Contains(said, s) }) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		l.store = errors.New(text)
	}
}

func (l *serverLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

// routine is what the server warns of at every start after a kill: it reads the
// node stream once to learn when tombstones expire.
const routine = "TTL state is outdated"

func (l *serverLog) line(level slog.Level, format string, v []any) string {
	text := fmt.Sprintf(format, v...)
	client := aboutClient.FindString(text)
	switch {
	case client == "" && strings.Contains(text, routine):
		level = slog.LevelDebug
	case client == "":
	case strings.HasPrefix(text[len(client):], crowd):
		level = slog.LevelDebug
		l.crowded.Do(func() { level = slog.LevelWarn })
	case level >= slog.LevelWarn:
		if !l.clients.Allow() {
			level = slog.LevelDebug
		} else if l.clients.Tokens() < 1 {
			text += "; for a second, others like it are left out"
		}
	}
	l.log.Log(context.Background(), level, "the NATS server reports", "detail", text, "component", "nats-server")
	return text
}

func (l *serverLog) Noticef(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.noteStore(l.line(slog.LevelWarn, format, v)) }

func (l *serverLog) Errorf(format string, v ...any) { l.noteStore(l.line(slog.LevelError, format, v)) }
func (l *serverLog) Debugf(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any) {}

func (l *serverLog) Fatalf(format string, v ...any) {
	text := l.line(slog.LevelError, format, v)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		l.fatal = errors.New(text)
	}
}
