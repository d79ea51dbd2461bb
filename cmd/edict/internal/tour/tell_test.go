package tour

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// terminal is one of forty columns.
type terminal struct{ bytes.Buffer }

func (*terminal) Width() int { return 40 }

// The story is broken between words on a terminal; a file has its lines as they are.
func TestTheStoryFitsItsTerminal(t *testing.T) {
	tell := func(of *tour) {
		of.tell("A plane of %s machines was started: it answered after %s,", thousands(10_000), "81ms")
		of.more("as it should.")
		of.more("%s announcements on NATS, one for each node.", thousands(24_000))
		of.command("edict policy promote shop --wave canary=true --then all")
	}
	l := new(terminal)
	tell(&tour{opt: Options{Out: l}})
	require.Equal(t, ` 1. A plane of 10,000 machines was
    started: it answered after 81ms, as
    it should.
    24,000 announcements on NATS, one
    for each node.
    edict policy promote shop \
        --wave canary=true --then all
`, l.String())
	var file strings.Builder
	tell(&tour{opt: Options{Out: &file}})
	require.Equal(t, ` 1. A plane of 10,000 machines was started: it answered after 81ms,
    as it should.
    24,000 announcements on NATS, one for each node.
    edict policy promote shop --wave canary=true --then all
`, file.String())
}
