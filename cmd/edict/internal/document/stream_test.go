package document

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func readStream(r io.Reader) (docs []Document, faults []Fault) {
	for d, f := range Stream("f", r) {
		if f != nil {
			faults = append(faults, *f)
		} else {
			docs = append(docs, d)
		}
	}
	return docs, faults
}

func TestStream(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing is no document", "\n \n", ""},
		{"NDJSON, with empty lines", "\n{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}", "2:{\"a\":1}\n4:{\"b\":2}\n5:{\"c\":3}\n"},
		{"a BOM is no text", "\ufeff{\"a\":1}", "1:{\"a\":1}\n"},
		{"a broken line hides no other", "{\"a\":\n{\"b\":2}\n{\"c\":}\nx\n{\"d\":4}", "2:{\"b\":2}\n5:{\"d\":4}\n" +
			"! f:1:6: the JSON ends too early\n! f:3:6: not JSON: invalid character '}' at start of value\n! f:4:1: not JSON: invalid character 'x' at start of value\n"},
		{"a line is one value", "{\"a\":1} {\"b\":2}\n", "! f:1:8: not NDJSON: the line goes on after its value\n"},
		{"a line that is not UTF-8", "{\"a\":1}\n{\"b\":\"\xff\"}\n{\"c\":3}\n", "1:{\"a\":1}\n3:{\"c\":3}\n! f:2:7: not UTF-8 text; save the file as UTF-8\n"},
		{"a line without end", "{\"a\":1}\n" + strings.Repeat("x", maxLine+1) + "\n{\"c\":3}\n", "1:{\"a\":1}\n3:{\"c\":3}\n! f:2:1: the line is longer than 1048576 bytes\n"},
		{"an array is its elements", "[\n {\"a\":1},\n {\"b\":2}\n]\n", "2:{\"a\":1}\n3:{\"b\":2}\n"},
		{"an array on one line is its elements", "[{\"a\":1},{\"b\":2}]", "1:{\"a\":1}\n1:{\"b\":2}\n"},
		{"an empty array", "[]\n", ""},
		{"documents over lines", "{\n\"a\":1}\n{\n\"b\":2}\n", "1:{\n\"a\":1}\n3:{\n\"b\":2}\n"},
		{"what stands before a syntax error is read", "[\n{\"a\":1},\n{\"b\":},\n{\"c\":3}]", "2:{\"a\":1}\n! f:3:6: not JSON: invalid character '}' after array element (expecting ',' or ']')\n"},
		{"an array that ends too early", "[\n{\"a\":1},\n{\"b\"", "2:{\"a\":1}\n! f:3:5: the JSON ends too early\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, faults := readStream(strings.NewReader(tc.text))
			require.Equal(t, tc.want, render(docs, faults))
			if len(tc.text) < 100 {
				docs, faults = readStream(iotest.OneByteReader(strings.NewReader(tc.text)))
				require.Equal(t, tc.want, render(docs, faults), "byte by byte")
			}
		})
	}
}

func TestAPointerIntoAStreamLeadsToItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"{\"x\":1}\n  {\"slug\":\"web\"}\n":                    "2:4",
		"[\n {\"x\":1},\n {\n  \"slug\": \"web\"}\n]":          "4:3",
		"[{\"x\":1},{\"slug\":\"web\"}]":                       "1:11",
		"{\n \"x\": 1\n}\n{\n \"b\": 1,\n\"slug\": \"web\"}\n": "6:1",
	} {
		docs, faults := readStream(strings.NewReader(text))
		require.Empty(t, faults)
		require.Len(t, docs, 2)
		line, column := docs[1].At("/slug")
		require.Equal(t, want, fmt.Sprintf("%d:%d", line, column), "%q", text)
	}
}

func TestAStreamThatCannotBeReadSaysSo(t *testing.T) {
	docs, faults := readStream(io.MultiReader(strings.NewReader("{\"a\":1}\n"), iotest.ErrReader(errors.New("disk on fire"))))
	require.Equal(t, "1:{\"a\":1}\n! f: disk on fire\n", render(docs, faults))
}

// Where both read a text whole, they read the same documents.
func FuzzStream(f *testing.F) {
	f.Add("{\"a\":1}\n{\"b\":}\n[1,2]")
	f.Add("[\n{\"a\":1},\n{\"b\":[2]}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		docs, faults := readStream(strings.NewReader(text))
		again, faultsAgain := readStream(iotest.OneByteReader(strings.NewReader(text)))
		require.Equal(t, render(docs, faults), render(again, faultsAgain))
	})
}
