package authority

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/edictdev/edict/internal/compiler/rete"
)

// Append adds an event to the enrollment log of a repository, on disk when it
// returns. The log must be sound, but for who is missing: appending to a broken
// one would bury the place where it broke.
func Append(repo *os.Root, event rete.Enrollment) error {
	_, faults := rete.ReadEnrollments(repo.FS())
	for _, f := range faults {
		if f.Line > 0 {
			return fmt.Errorf("%s: %s; repair the log first", f.Place(), f.Message)
		}
	}
	line, err := json.Marshal(event)
	if err != nil {
		return err
	}
	f, err := repo.OpenFile(rete.EnrollmentLog, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	whole, err := endsWithNewline(f)
	if err != nil {
		return err
	}
	if !whole {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// endsWithNewline is true of an empty file, too.
func endsWithNewline(f *os.File) (bool, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return true, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], end-1)
	return last[0] == '\n', err
}

// At is a time as the log has it.
func At(now time.Time) string { return now.UTC().Format(time.RFC3339) }

// WriteNew writes a file that must not exist, on disk when it returns.
func WriteNew(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists already; remove it first if it is to be replaced", path)
		}
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}
