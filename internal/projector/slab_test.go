package projector

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextsStayWhatTheyAre(t *testing.T) {
	var all texts
	var got, want []string
	for i := range 5000 {
		text := strings.Repeat(string(rune('a'+i%26)), i%300)
		b := []byte(text)
		got, want = append(got, all.text(b)), append(want, text)
		clear(b)
	}
	long := strings.Repeat("x", textsLen+1)
	require.Equal(t, long, all.text([]byte(long)))
	require.Equal(t, want, got)
}
