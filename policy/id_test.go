package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTheIDOfABodyIsThatOfItsEvent: of every body that decodes, and of none is
// it another one.
func TestTheIDOfABodyIsThatOfItsEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(t)
		body := Append(nil, e)
		require.Equal(t, e.EventID(), IDOf(body))

		behind := len(`{"id":"00000000-0000-0000-0000-000000000000"`)
		tail := rapid.SliceOf(rapid.Byte()).Draw(t, "what stands behind it")
		require.Equal(t, e.EventID(), IDOf(slices.Concat(body[:behind], tail)))

		at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
		body[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if harmed, _ := Decode(body); harmed != nil {
			require.Equal(t, harmed.EventID(), IDOf(body))
		}
	})
}

// Whoever fills the log with such bodies would keep every reader of it busy.
func TestABodyThatNowhereSaysAnIDIsNotRead(t *testing.T) {
	var body strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&body, `,"%x":1`, i)
	}
	object := []byte("{" + body.String()[1:] + "}")
	require.Zero(t, testing.AllocsPerRun(1, func() { IDOf(object) }), "names are remembered")
}
