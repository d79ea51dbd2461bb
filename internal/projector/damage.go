package projector

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// CorruptError means that a store cannot be read back as it was written. It is
// derived: the log makes it anew.
type CorruptError struct {
	Dir    string // empty: one payload is, of a store that is open
	Detail string // one line
}

// Error says what is damaged and what to do.
func (e *CorruptError) Error() string {
	if e.Dir == "" {
		return e.Detail + ": the store is damaged; move it away and let it be rebuilt from the log"
	}
	return fmt.Sprintf("the read model in %s is damaged (%s): start again, serve moves it aside and folds the log anew; or move the directory away", e.Dir, e.Detail)
}

// damageMark is a file in a store that was seen to be damaged while it was
// open: the next start need not meet the damage again to know.
const damageMark = "DAMAGED"

// corrupt is a damaged store, said in one line.
func corrupt(dir string, cause error) *CorruptError {
	const most = 300
	detail := strings.Join(strings.Fields(cause.Error()), " ")
	return &CorruptError{Dir: dir, Detail: detail[:min(len(detail), most)]}
}

// unreadable turns why a store could not be opened into *CorruptError, but for
// what is the system's fault and not the store's.
func unreadable(dir string, err error) error {
	var own *CorruptError
	var schema *SchemaError
	var other *OtherLogError
	var system syscall.Errno
	switch {
	case err == nil, errors.As(err, &own), errors.As(err, &schema), errors.As(err, &other):
		return err
	case !pebble.IsCorruptionError(err) && errors.As(err, &system) && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return corrupt(dir, err)
}

// marked says that the store in dir was seen to be damaged.
func marked(fsys vfs.FS, dir string) error {
	path := filepath.Join(dir, damageMark)
	if _, err := fsys.Stat(path); err != nil {
		return nil
	}
	detail := "it was seen to be when it was read last"
	if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
		detail = string(b)
	}
	return &CorruptError{Dir: dir, Detail: detail}
}

// meet notes that the store turned out to be damaged. It is called by whoever
// reads, whatever it holds.
func (p *Projector) meet(info pebble.DataCorruptionInfo) {
	p.met.Do(func() {
		err := corrupt(p.dir, fmt.Errorf("%s: %w", filepath.Base(info.Path), info.Details))
		if f, ferr := p.opt.fs.Create(filepath.Join(p.dir, damageMark), vfs.WriteCategoryUnspecified); ferr == nil {
			_, werr := f.Write([]byte(err.Detail))
			_ = errors.Join(werr, f.Sync(), f.Close()) // the next start may meet the damage itself
		}
		if p.opt.Corrupt != nil {
			p.opt.Corrupt(err)
		}
	})
}

// sound turns an error of the store that comes of its damage into *CorruptError.
func (p *Projector) sound(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) {
		return err
	}
	return corrupt(p.dir, err)
}
