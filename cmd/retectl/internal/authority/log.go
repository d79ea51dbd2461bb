package authority

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// Append adds events to the enrollment log of a repository: all of them are on disk
// when it returns, and none where it fails or is cut off. The log must be sound, but
// for who is missing: appending to a broken one would bury the place where it broke.
func Append(repo *os.Root, events ...rete.Enrollment) error {
	_, faults := rete.ReadEnrollments(repo.FS())
	for _, f := range faults {
		if f.Line > 0 {
			return fmt.Errorf("%s: %s; repair the log first", f.Place(), f.Message)
		}
	}
	text, mode, err := readLog(repo)
	if err != nil {
		return err
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	return artifact.WriteFile(filepath.Join(repo.Name(), rete.EnrollmentLog), text, mode)
}

// readLog reads the log as it is; one that is not there is empty.
func readLog(repo *os.Root) ([]byte, fs.FileMode, error) {
	info, err := repo.Lstat(rete.EnrollmentLog)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0o644, nil
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is not a regular file; put the log itself there", rete.EnrollmentLog)
	}
	text, err := repo.ReadFile(rete.EnrollmentLog)
	return text, info.Mode().Perm(), err
}

// At is a time as the log has it.
func At(now time.Time) string { return now.UTC().Format(time.RFC3339) }

// WriteNew writes a file that must not exist, on disk when it returns.
func WriteNew(path string, content []byte) error { return writeNew(path, content, 0o644) }

// WritePrivate is WriteNew of a file that only its owner may read.
func WritePrivate(path string, content []byte) error { return writeNew(path, content, 0o600) }

func writeNew(path string, content []byte, mode fs.FileMode) error {
	err := artifact.CreateFile(path, content, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already; remove it first if it is to be replaced", path)
	}
	return err
}
