package datadir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/edictdev/edict/artifact"
)

// Ended says why a worker ended by itself.
type Ended struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"` // one of a closed list
	Error  string    `json:"error"`  // one line
}

// ended is the file that says why the last run ended, where it did by itself.
func (d Dir) ended() string { return d.join("ended.json") }

// NoteEnd keeps why this run ends, for the next start to say.
func (d Dir) NoteEnd(e Ended) error {
	e.Error, _, _ = strings.Cut(e.Error, "\n")
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return artifact.WriteFile(d.ended(), append(text, '\n'), 0o600)
}

// TakeEnd is why the run before ended by itself, once; nil: it ended in order, or was
// killed.
func (d Dir) TakeEnd() (*Ended, error) {
	text, err := os.ReadFile(d.ended())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var e Ended
	if err == nil && json.Unmarshal(text, &e) != nil {
		e = Ended{Reason: "other", Error: "the note of its end cannot be read"}
	}
	return &e, errors.Join(err, os.Remove(d.ended()))
}
