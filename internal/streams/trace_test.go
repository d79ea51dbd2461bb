package streams

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

func TestATraceparentIsReadAsW3CSays(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"version 00", "00-" + traceID + "-" + spanID + "-01", "00-" + traceID + "-" + spanID + "-01"},
		{"not sampled", "00-" + traceID + "-" + spanID + "-00", "00-" + traceID + "-" + spanID + "-00"},
		{"flags nobody knows are dropped", "00-" + traceID + "-" + spanID + "-ff", "00-" + traceID + "-" + spanID + "-03"},
		{"a later version", "cc-" + traceID + "-" + spanID + "-01-what-else", "00-" + traceID + "-" + spanID + "-01"},
		{"a later version runs on", "cc-" + traceID + "-" + spanID + "-01.what", ""},
		{"version 00 has no more fields", "00-" + traceID + "-" + spanID + "-01-what", ""},
		{"version ff", "ff-" + traceID + "-" + spanID + "-01", ""},
		{"a trace id of zeros", "00-00000000000000000000000000000000-" + spanID + "-01", ""},
		{"a span id of zeros", "00-" + traceID + "-0000000000000000-01", ""},
		{"capitals", "00-0AF7651916CD43DD8448EB211C80319C-" + spanID + "-01", ""},
		{"no hexadecimal", "00-0xf7651916cd43dd8448eb211c80319c-" + spanID + "-01", ""},
		{"too short", "00-" + traceID + "-" + spanID + "-0", ""},
		{"nothing", "", ""},
		{"another separator", "00_" + traceID + "-" + spanID + "-01", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := ParseTrace(c.in)
			require.Equal(t, c.want, got.String())
			require.Equal(t, c.want != "", ok)
			require.Equal(t, !ok, got.IsZero())
			if ok {
				require.Equal(t, traceID, got.ID())
			}
		})
	}
}

func FuzzParseTrace(f *testing.F) {
	f.Add("00-" + traceID + "-" + spanID + "-01")
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := ParseTrace(s)
		again, ok2 := ParseTrace(got.String())
		if ok != ok2 || got != again || ok == got.IsZero() {
			t.Fatalf("%q reads as %q", s, got)
		}
	})
}
