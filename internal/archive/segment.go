package archive

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// Version is the one that this package writes, and the only one that it reads.
const Version = 1

// form is what the first member of a segment's header says.
const form = "log segment"

// Names of segments. Where one was inflated for people to look at, it is read all
// the same.
const (
	suffixPlain = ".ndjson"
	suffix      = suffixPlain + ".zst"
)

// Header is the first line of a segment.
type Header struct {
	Form       string `json:"edict"`
	Version    int    `json:"version"`
	Log        string `json:"log"`  // the log's identity (streams.Log.ID)
	Base       uint64 `json:"base"` // what its event ids counted from when this was written
	Partitions int    `json:"partitions"`
	Begins     uint64 `json:"begins"` // the sequence of the log's first event, ever
	First      uint64 `json:"first"`  // that of this segment
	Chain      string `json:"chain"`  // the chain hash before it, 64 hex digits
}

// Trailer is the last line of a segment.
type Trailer struct {
	Last   uint64 `json:"last"` // the sequence of the segment's last event
	Events uint64 `json:"events"`
	Chain  string `json:"chain"`  // the chain hash with it
	SHA256 string `json:"sha256"` // of all lines above, with their ends
}

// FaultError means that an archive is not what an export wrote.
type FaultError struct {
	File   string
	Line   int // 0: it is about the file
	Detail string
	// Final is set where Detail says what to do, or where another copy of the file could not be
	// better.
	Final bool
}

// Error says where, and what.
func (e *FaultError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Detail)
	}
	return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, e.Detail)
}

// segmentName is that of the segment which begins at a sequence. Names sort as
// sequences do.
func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, suffix) }

// firstOf reads it from a name.
func firstOf(name string) (first uint64, ok bool) {
	name = filepath.Base(name)
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		digits, ok = strings.CutSuffix(name, suffixPlain)
	}
	if !ok || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0
}

// versionError means that something is of another version than the one that is read.
type versionError struct {
	of      string
	version int
}

func (e *versionError) Error() string {
	return fmt.Sprintf("the %s has version %d, this edict reads %d", e.of, e.version, Version)
}

// parseHeader reads the line and the chain that it begins with.
func parseHeader(line []byte) (h Header, c projector.Chain, err error) {
	var v struct {
		Form    string `json:"edict"`
		Version int    `json:"version"`
	}
	if json.Unmarshal(line, &v) != nil || v.Form != form {
		return h, c, errors.New("no segment of a log begins so")
	}
	if v.Version != Version {
		return h, c, &versionError{"format", v.Version}
	}
	if err := strictly(line, &h); err != nil {
		return h, c, fmt.Errorf("no header: %w", err)
	}
	if c.Hash, err = readHash(h.Chain); err != nil {
		return h, c, err
	}
	if h.First == 0 || h.Begins == 0 || h.First < h.Begins || h.Partitions < 1 || !bytes.Equal(appendLine(nil, h), line) {
		return h, c, errForm
	}
	if err := h.possible(); err != nil {
		return h, c, err
	}
	c.Seq = h.First - 1
	return h, c, nil
}

// possible refuses what no log says of itself: no plane would open one that is made of it,
// and to fold it takes memory for each partition.
func (h Header) possible() error {
	switch {
	case h.Partitions > streams.MaxPartitions:
		return fmt.Errorf("no log has %d partitions: at most %d", h.Partitions, streams.MaxPartitions)
	case h.First > streams.MaxBase: // event ids have as much room for sequences
		return fmt.Errorf("no log has an event %d: event ids have room for %d", h.First, uint64(streams.MaxBase))
	case h.Base > streams.MaxBase:
		return fmt.Errorf("event ids of no log count from %d: at most from %d", h.Base, uint64(streams.MaxBase))
	}
	_, err := created(h.Log)
	return err
}

// created is when the log of an identity was made.
func created(log string) (time.Time, error) {
	ns, err := strconv.ParseInt(log, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is no identity of a log", log)
	}
	return time.Unix(0, ns).UTC(), nil
}

func readHash(text string) (hash [32]byte, err error) {
	if n, err := hex.Decode(hash[:], []byte(text[:min(len(text), 64)])); err != nil || n != len(hash) || len(text) != 64 {
		return hash, fmt.Errorf("%.70q is no hash: want 64 hex digits", text)
	}
	return hash, nil
}
