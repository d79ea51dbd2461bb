package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATableObeysNobodysEscapes(t *testing.T) {
	var out strings.Builder
	columns(&out, []string{"principal"}, [][]string{{"root\x1b[2K\x1b[1A"}, {"a\tb\u202ec\x9b"}, {"ana süd\ntwo"}})
	require.Equal(t, "PRINCIPAL\nroot\\x1b[2K\\x1b[1A\na\\tb\\u202ec\ufffd\nana süd\ntwo\n", out.String())
}
