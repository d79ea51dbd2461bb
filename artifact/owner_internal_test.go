package artifact

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoMayReadAPrivateFile(t *testing.T) {
	const root, us, other = 0, 65532, 1000
	for _, c := range []struct {
		name        string
		mode        fs.FileMode
		owner, self int
		open        bool
	}{
		{"our own, ours alone", 0o600, us, us, false},
		{"our own, the group reads too", 0o640, us, us, true},
		{"root's, handed to our group", 0o440, root, us, false},
		{"root's, our group may write", 0o460, root, us, true},
		{"root's, all may read", 0o444, root, us, true},
		{"root's, and we are root", 0o440, root, root, true},
		{"somebody else's, handed to our group", 0o440, other, us, true},
		{"nobody knows whose", 0o440, -1, us, true},
	} {
		require.Equal(t, c.open, tooOpen(c.mode, c.owner, c.self), c.name)
	}
}
