package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/relay"
)

// WorkerID is the lasting name of who works on the directory. It is made where
// there is none.
func (d Dir) WorkerID() (string, error) {
	path := d.join("worker.id")
	text, err := os.ReadFile(path)
	if err == nil {
		if id, err := uuid.Parse(strings.TrimSpace(string(text))); err == nil {
			return id.String(), nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// A crash may leave the file empty: who works here is named anew, then.
	id := uuid.New().String()
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return id, nil
}

// published is the file of up to where the worker published, for when no other
// worker is left that knows.
func (d Dir) published() string { return d.join("published.json") }

// Published is what KeepPublished left, of a log whose event ids count from
// base; nil: nothing is known.
func (d Dir) Published(log string, base uint64) (map[int]uint64, error) {
	text, err := os.ReadFile(d.published())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var kept relay.Published
	if err != nil || json.Unmarshal(text, &kept) != nil || !kept.Of(log, base) {
		return nil, err // a crash may leave the file empty
	}
	return kept.Partitions, nil
}

// KeepPublished writes up to where the worker published.
func (d Dir) KeepPublished(p *relay.Published) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	path := d.published()
	// A power failure may take it; nothing is lost then.
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
