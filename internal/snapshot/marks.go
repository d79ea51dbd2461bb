package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/edictdev/edict/internal/projector"
)

// marks are copies of a read model at sequences of the log, in a directory: a fold of the
// past begins at the nearest one. They are hard links, of which the files that never change
// take no room while the worker's own store has them, too. Whoever opens one works on a
// copy of it.
type marks struct {
	dir  string
	most int

	mu   sync.Mutex
	seqs []uint64 // ascending
}

// markPrefix begins the names of their directories.
const markPrefix = "mark-"

// openMarks finds those that an earlier process left.
func openMarks(dir string, most int) (*marks, error) {
	m := &marks{dir: dir, most: most}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), markPrefix)
		seq, err := strconv.ParseUint(text, 10, 64)
		if !ok || err != nil { // of a model that was open, or a copy that was cut off
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		m.seqs = append(m.seqs, seq)
	}
	slices.Sort(m.seqs)
	return m, nil
}

func (m *marks) path(seq uint64) string {
	return filepath.Join(m.dir, fmt.Sprintf("%s%d", markPrefix, seq))
}

// put makes a mark where a read model stands. Where there are too many, one goes that has
// others near it.
func (m *marks) put(from *projector.Projector) error {
	part := filepath.Join(m.dir, "part")
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	seq, err := projector.Copy(from, part)
	if err != nil || slices.Contains(m.seqs, seq) {
		return errors.Join(err, os.RemoveAll(part))
	}
	if err := os.Rename(part, m.path(seq)); err != nil {
		return err
	}
	at, _ := slices.BinarySearch(m.seqs, seq)
	m.seqs = slices.Insert(m.seqs, at, seq)
	if len(m.seqs) > m.most {
		return m.drop(m.seqs[m.crowded()])
	}
	return nil
}

// crowded is the place of the mark without which the folds become least longer. The last
// one stays.
func (m *marks) crowded() (place int) {
	least := uint64(1<<64 - 1)
	before := uint64(0)
	for i := range len(m.seqs) - 1 {
		if gap := m.seqs[i+1] - before; gap < least {
			place, least = i, gap
		}
		before = m.seqs[i]
	}
	return place
}

// drop removes a mark, with m locked.
func (m *marks) drop(seq uint64) error {
	m.seqs = slices.DeleteFunc(m.seqs, func(x uint64) bool { return x == seq })
	return os.RemoveAll(m.path(seq))
}

// clear removes the marks that are to go.
func (m *marks) clear(gone func(seq uint64) bool) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, seq := range slices.Clone(m.seqs) {
		if gone(seq) {
			err = errors.Join(err, m.drop(seq))
		}
	}
	return err
}

// forget removes a mark that cannot be used.
func (m *marks) forget(seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drop(seq)
}

// nearest is the last mark at or before a sequence; 0: there is none.
func (m *marks) nearest(seq uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, found := slices.BinarySearch(m.seqs, seq)
	switch {
	case found:
		return seq
	case at == 0:
		return 0
	}
	return m.seqs[at-1]
}

// copyTo copies a mark into dir, which must not exist.
func (m *marks) copyTo(seq uint64, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(m.path(seq))
	if err != nil {
		return err
	}
	for _, e := range entries {
		from, to := filepath.Join(m.path(seq), e.Name()), filepath.Join(dir, e.Name())
		share := copyFile
		if ext := filepath.Ext(e.Name()); ext == ".sst" || ext == ".blob" { // they never change
			share = os.Link
		}
		if err := share(from, to); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return cmp.Or(err, w.Close())
}
