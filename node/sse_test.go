package node

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// readAll reads every frame of a stream.
func readAll(t *testing.T, r io.Reader) []frame {
	t.Helper()
	var out []frame
	stream := newFrames(r, maxFrame)
	for {
		f, err := stream.next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		f.data = bytes.Clone(f.data)
		out = append(out, f)
	}
}

func said(id, event, data string) frame { return frame{id: id, event: event, data: []byte(data)} }

func traced(trace string, f frame) frame {
	f.trace = trace
	return f
}

func TestFrames(t *testing.T) {
	for _, tc := range []struct {
		name, stream string
		want         []frame
	}{
		{"nothing says nothing", "", nil},
		{"a comment names a trace, of one event alone", ": traceparent 00-a\nid: 7\nevent: e\ndata: x\n\nid: 8\nevent: e\ndata: y\n\n", []frame{traced("00-a", said("7", "e", "x")), said("8", "e", "y")}},
		{"a trace that is too long is none", ": traceparent " + strings.Repeat("0", maxTrace+1) + "\nid: 7\nevent: e\ndata: x\n\n", []frame{said("7", "e", "x")}},
		{"a trace of nothing is forgotten", ": traceparent 00-a\n\nid: 7\nevent: e\ndata: x\n\n", []frame{said("7", "e", "x")}},
		{"one event", "id: 7\nevent: e\ndata: x\n\n", []frame{said("7", "e", "x")}},
		{"lines end with CRLF", "id: 7\r\nevent: e\r\ndata: x\r\n\r\n", []frame{said("7", "e", "x")}},
		{"lines end with CR", "id: 7\revent: e\rdata: x\r\r", []frame{said("7", "e", "x")}},
		{"line ends may be mixed", "id: 7\r\nevent: e\rdata: x\n\r\n", []frame{said("7", "e", "x")}},
		{"CR LF LF is two line ends", "data: x\r\n\ndata: y\n\n", []frame{said("", "message", "x"), said("", "message", "y")}},
		{"data lines are joined with LF", "data: x\ndata:\ndata: y\n\n", []frame{said("", "message", "x\n\ny")}},
		{"only one space is taken off", "data:  x \n\n", []frame{said("", "message", " x ")}},
		{"a field without a colon is empty", "data\n\n", []frame{said("", "message", "")}},
		{"comments are not events", ":keep-alive\n\n: more\n\ndata: x\n\n", []frame{said("", "message", "x")}},
		{"a comment may stand inside an event", "data: x\n:c\ndata: y\n\n", []frame{said("", "message", "x\ny")}},
		{"a BOM in front is skipped", "\xef\xbb\xbfdata: x\n\n", []frame{said("", "message", "x")}},
		{"a BOM elsewhere is not", "data: x\n\n\xef\xbb\xbfdata: y\n\n", []frame{said("", "message", "x")}},
		{"two BOMs are one too many", "\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n", nil},
		{"an id stays until the next", "id: 7\ndata: x\n\ndata: y\n\n", []frame{said("7", "message", "x"), said("7", "message", "y")}},
		{"an id without data counts for later", "id: 7\n\ndata: x\n\n", []frame{said("7", "message", "x")}},
		{"an event type does not stay", "event: e\n\ndata: x\n\n", []frame{said("", "message", "x")}},
		{"an id with NUL is ignored", "id: 7\nid: 8\x00\ndata: x\n\n", []frame{said("7", "message", "x")}},
		{"an empty id empties it", "id: 7\ndata: x\n\nid\ndata: y\n\n", []frame{said("7", "message", "x"), said("", "message", "y")}},
		{"unknown fields and retry are ignored", "retry: 10\nfoo: bar\ndata: x\n\n", []frame{said("", "message", "x")}},
		{"names are told apart by case", "Data: x\n\ndata: y\n\n", []frame{said("", "message", "y")}},
		{"what the end cuts is forgotten", "data: x\n\ndata: y\n", []frame{said("", "message", "x")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, readAll(t, strings.NewReader(tc.stream)))
			require.Equal(t, tc.want, readAll(t, iotest.OneByteReader(strings.NewReader(tc.stream))), "byte by byte")
			require.Equal(t, tc.want, readAll(t, iotest.DataErrReader(strings.NewReader(tc.stream))), "the end comes with the data")
			for cut := range len(tc.stream) {
				r := io.MultiReader(strings.NewReader(tc.stream[:cut]), strings.NewReader(tc.stream[cut:]))
				require.Equal(t, tc.want, readAll(t, r), "in two pieces, cut at %d", cut)
			}
		})
	}
}

func TestAnEventIsReadBeforeItsLastLineEndIsComplete(t *testing.T) {
	r, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, "data: x\r\n\r") }() // a LF may follow, or not for an hour
	f, err := newFrames(r, maxFrame).next()
	require.NoError(t, err)
	require.Equal(t, "x", string(f.data))
	require.NoError(t, w.Close())
}

func TestAnEndlessEventIsRefused(t *testing.T) {
	for _, line := range []string{"data: " + strings.Repeat("x", 1<<10) + "\n", strings.Repeat("x", 1<<10)} {
		f := newFrames(&forever{line: []byte(line)}, 64<<10)
		_, err := f.next()
		require.ErrorIs(t, err, errFrameTooLarge)
		require.Greater(t, f.size, 64<<10-len(line), "not before")
		require.LessOrEqual(t, f.size, 128<<10, "at once")
	}
}

type forever struct {
	line []byte
	at   int
}

func (f *forever) Read(p []byte) (int, error) {
	n := copy(p, f.line[f.at:])
	f.at = (f.at + n) % len(f.line)
	return n, nil
}

// slowFrames reads a stream as the standard's text says it, on the whole of it.
func slowFrames(s string) (out []frame) {
	s = strings.TrimPrefix(s, "\xef\xbb\xbf")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(s, "\n")
	id, event, data := "", "", ""
	for _, line := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != "" {
				if event == "" {
					event = "message"
				}
				out = append(out, said(id, event, strings.TrimSuffix(data, "\n")))
			}
			event, data = "", ""
		case name == "data":
			data += value + "\n"
		case name == "event":
			event = value
		case name == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return out
}

func FuzzFrames(f *testing.F) {
	f.Add("\xef\xbb\xbfid: 7\r\nevent: e\rdata: x\n\n:c\n\ndata\n\n", uint(3))
	f.Add("data: x\r\n\n\r\rdata:y\n\r", uint(9))
	f.Fuzz(func(t *testing.T, s string, cut uint) {
		at := int(cut % uint(len(s)+1))
		got := readAll(t, io.MultiReader(strings.NewReader(s[:at]), strings.NewReader(s[at:])))
		want := slowFrames(s)
		require.Equal(t, len(want), len(got))
		for i := range want {
			require.Equal(t, want[i].id, got[i].id)
			require.Equal(t, want[i].event, got[i].event)
			require.Equal(t, string(want[i].data), string(got[i].data))
		}
	})
}
