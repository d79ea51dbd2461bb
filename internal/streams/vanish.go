package streams

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// openFiles are the files of the log as its server has them open: it goes on writing
// to them when their names are gone, and acknowledges.
type openFiles struct {
	mu       sync.Mutex
	messages os.FileInfo // the directory of the log's blocks; nil: not seen yet
	block    uint64      // the newest seen; 0: none
}

// Vanished says that the files that the server writes the log to are not, or no
// longer, where the next start would look for them: *DamagedError. A log that
// was not made yet is not missed. It costs three questions to the file system.
func (s *Server) Vanished() error {
	s.mu.RLock()
	lock, dir := s.lock, s.opt.Dir
	s.mu.RUnlock()
	if lock == nil {
		return nil // closed
	}
	own, err := lock.f.Stat()
	if err != nil {
		return nil // closed meanwhile
	}
	if other(own, filepath.Join(dir, lockName)) {
		return vanished(dir)
	}
	return s.files.look(messagesDir(dir))
}

// other reports whether a name is gone, or another file's. What cannot be known
// is not.
func other(own os.FileInfo, name string) bool {
	now, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(own, now)
}

// look compares the log's directory, and its newest block, with what was there.
func (h *openFiles) look(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.messages == nil {
		h.messages, _ = os.Stat(dir) // nil: not made yet
		h.block = newestBlock(dir)
		return nil
	}
	if other(h.messages, dir) {
		return vanished(dir)
	}
	for exists(blockName(dir, h.block+1)) {
		h.block++
	}
	// It may have made way for the next in between.
	if h.block > 0 && missing(blockName(dir, h.block)) && missing(blockName(dir, h.block+1)) {
		return vanished(blockName(dir, h.block))
	}
	return nil
}

const blockSuffix = ".blk"

func blockName(dir string, n uint64) string {
	return filepath.Join(dir, strconv.FormatUint(n, 10)+blockSuffix)
}

// exists and missing are both false where the file system does not say.
func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func missing(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// newestBlock is the highest number of a block; 0: there is none.
func newestBlock(dir string) (newest uint64) {
	entries, _ := os.ReadDir(dir) // as if there were none
	for _, e := range entries {
		if text, ok := strings.CutSuffix(e.Name(), blockSuffix); ok {
			n, _ := strconv.ParseUint(text, 10, 64)
			newest = max(newest, n)
		}
	}
	return newest
}

func vanished(name string) error {
	return &DamagedError{Damage: DamageGone, Detail: fmt.Sprintf(
		"%s was removed or replaced while the plane ran, or the stream was purged: what was acknowledged since is lost, and all of the log if no copy is left; stop the plane, put the directory back, or restore a backup, start again", name)}
}
