package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Failed says why the store takes no messages until Restart; nil while it
// takes them. A store that met a full disk is so, however much room there is
// later, and its publishers wait in vain.
func (s *Server) Failed() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.lock == nil:
		return nil // closed
	case s.run == nil:
		return errors.New("the embedded server is down")
	}
	if err := s.lines.storeFailure(); err != nil {
		return err
	}
	if !s.run.JetStreamEnabled() {
		return errors.New("the embedded server has disabled JetStream")
	}
	return nil
}

// Refuse has every stream refuse new messages, those of native clients too,
// with an answer (10002, ErrStorage), until it is called with false. Reading
// goes on. It outlives Restart.
func (s *Server) Refuse(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = on
	if s.run == nil {
		return nil // start does it
	}
	return s.limit()
}

// limit makes the account's limit what s.refuse says. The caller holds s.mu.
func (s *Server) limit() error {
	all := server.JetStreamAccountLimits{
		MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1,
		MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
	}
	if s.refuse {
		all.MaxStore = 0
	}
	if err := s.run.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": all}); err != nil {
		return fmt.Errorf("embedded server: set the account's limits: %w", err)
	}
	return nil
}

// lockName is the file below a store directory that a server locks.
const lockName = "server.lock"

// CheckDir fails when a server uses the store directory. It changes nothing,
// and a directory that does not exist is free.
func CheckDir(dir string) error {
	path := filepath.Join(dir, lockName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := lockDir(path)
	if err != nil {
		return notLocked(dir, err)
	}
	lock.release()
	return nil
}

// StoredLog reads from a store directory, whose server is down, when its log
// was made. found is false when there is none.
func StoredLog(dir string) (created time.Time, found bool, err error) {
	// The layout is the server's; a test holds it against the server's answer.
	path := filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams", LogStream, server.JetStreamMetaFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return created, false, nil
	}
	if err != nil {
		return created, false, err
	}
	var meta struct{ Created time.Time }
	if err := json.Unmarshal(text, &meta); err != nil {
		return created, false, fmt.Errorf("%s: %w", path, err)
	}
	return meta.Created.UTC(), true, nil
}

// Witnessed reports whether a store directory, whose server is down, has the
// witness of a log.
func Witnessed(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams", ChainStream, server.JetStreamMetaFile))
	return err == nil
}

// LogCreated asks a server when its log was made, and makes none.
func LogCreated(ctx context.Context, c *Conn) (created time.Time, found bool, err error) {
	info, err := c.streamInfo(ctx, LogStream)
	if errors.Is(err, ErrNotFound) {
		return created, false, nil
	}
	if err != nil {
		return created, false, err
	}
	return info.Created.UTC(), true, nil
}
