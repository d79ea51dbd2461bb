package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/edictdev/edict/policy"
)

// placeName is the file below a store directory that says where it is.
const placeName = "place.json"

// place is what a store directory cannot be copied with: which files its own
// are. Each is named by what the file system calls it, and by when it was made.
type place struct {
	Self     string `json:"self"`     // the file that says this, new at each start
	Messages string `json:"messages"` // the directory of the log's blocks
}

// messagesDir is where a server keeps the log's blocks. The layout is the
// server's; a test holds it against what the server does.
func messagesDir(dir string) string {
	return filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams", LogStream, "msgs")
}

// InPlace reports whether a store directory is the very one that MarkPlace
// marked last. If not, its files were copied there, or put back from a backup,
// or the mark is missing. Where files have no identity of their own it is always
// true: nothing can be known.
func InPlace(dir string) bool {
	self, known := identityOf(filepath.Join(dir, placeName))
	if !known {
		return !filesHaveIdentity
	}
	text, err := os.ReadFile(filepath.Join(dir, placeName))
	if err != nil {
		return false
	}
	var was place
	if json.Unmarshal(text, &was) != nil || was.Self != self {
		return false
	}
	messages, _ := identityOf(messagesDir(dir))
	return was.Messages == messages
}

// MarkPlace notes that a store directory, which has a log, is where it is. The
// file is made anew each time: a copy that is written over it is distinguished from it.
func MarkPlace(dir string) error {
	if !filesHaveIdentity {
		return nil
	}
	f, err := os.CreateTemp(dir, ".place-*")
	if err != nil {
		return fmt.Errorf("mark the place of the log: %w", err)
	}
	now := place{}
	now.Self, _ = identityOf(f.Name())
	now.Messages, _ = identityOf(messagesDir(dir))
	text, err := json.Marshal(now)
	if err == nil {
		_, err = f.Write(append(text, '\n'))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, placeName))
	}
	if err != nil {
		return fmt.Errorf("mark the place of the log: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// beyondBackup is how many events a log may have had beyond the backup that was
// put back, where it took more than its base grows with time.
const beyondBackup = 1 << 24

// BeginAnew has event ids begin above every one that can have been sent, though
// the log does not know them any more: it was put back from a backup. known is
// the highest that anybody remembers.
func (l *Log) BeginAnew(ctx context.Context, known policy.EventID) error {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err != nil {
		return fmt.Errorf("rebase the log: %w", err)
	}
	latest := info.State.LastTime
	if latest.IsZero() {
		latest = info.Created
	}
	above := stateOf(info).Last + beyondBackup + ticksBetween(latest, time.Now())
	return l.Rebase(ctx, max(known, policy.EndOf(l.base, above)))
}

// ticksBetween is how far the clock of the bases went. A backup that is put back
// a second time has the same end as the first time: its age alone says that ids
// were given in between.
func ticksBetween(from, to time.Time) uint64 {
	return baseAt(to) - min(baseAt(from), baseAt(to))
}
