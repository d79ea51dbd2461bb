package document

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// render writes documents as line:json, and faults.
func render(docs []Document, faults []Fault) string {
	var b strings.Builder
	for _, d := range docs {
		fmt.Fprintf(&b, "%d:%s\n", d.Line, d.JSON)
	}
	for _, f := range faults {
		fmt.Fprintf(&b, "! %s\n", f)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing is no document", "", ""},
		{"comments are no document", "# one\n---\n# two\n---\n", ""},
		{"YAML documents know their lines", "---\na: x\n---\n# c\nb: [1, true, ~]\n", "2:{\"a\":\"x\"}\n5:{\"b\":[1,true,null]}\n"},
		{"a YAML list is its elements", "- a: 1\n- b: 2\n", "1:{\"a\":1}\n2:{\"b\":2}\n"},
		{"words that YAML 1.1 took for booleans stay words", "a: yes\nb: no\nc: on\n", `1:{"a":"yes","b":"no","c":"on"}` + "\n"},
		{"a date is text", "a: 2026-01-01\n", `1:{"a":"2026-01-01"}` + "\n"},
		{"numbers of other bases are numbers", "a: 0x1f\nb: 0o17\nc: 1_000\n", `1:{"a":31,"b":15,"c":1000}` + "\n"},
		{"a number that may be octal is none", "a: 1\nb: [1, -0443]\n", "! f:2:8: -0443: readers of YAML do not agree on a number that begins with 0; leave the 0 away, or put a text in quotes\n"},
		{"a text of digits", "a: \"0443\"\nb: 0\nc: 0.5\n", `1:{"a":"0443","b":0,"c":0.5}` + "\n"},
		{"a deep document", "a: " + strings.Repeat("[", 101) + strings.Repeat("]", 101), "! f:1:104: more than 100 values stand within each other\n"},
		{"names said twice are kept for the reader to see", "a: 1\na: 2\n", `1:{"a":1,"a":2}` + "\n"},
		{"aliases are written out", "a: &x {q: 1}\nb: *x\n", `1:{"a":{"q":1},"b":{"q":1}}` + "\n"},
		{"merge keys are refused by name", "a: &x {q: 1}\nb:\n  <<: *x\n", "! f:3:3: merge keys (<<) are not supported; write the fields out\n"},
		{"a list of names is no name", "? [a]\n: 1\n", "! f:1:3: the name of a field must be a plain word\n"},
		{"broken YAML has a place", "a: 1\nb: [x, y\n", "! f:3:1: not YAML: did not find expected ',' or ']' while parsing a flow sequence that began in line 2\n"},
		{"a tab at the beginning of a line", "a:\n\tb: 1\n", "! f:2:1: not YAML: a tab; YAML is indented with spaces\n"},
		{"a tab behind spaces", "a:\n- b: 1\n  \tc: 1\n", "! f:3:3: not YAML: a tab; YAML is indented with spaces\n"},
		{"what stands before broken YAML is read", "a: 1\n---\nb: *nope\n", "1:{\"a\":1}\n! f:3:4: not YAML: unknown anchor 'nope' referenced\n"},
		{"JSON", `{"a":1}`, "1:{\"a\":1}\n"},
		{"a BOM is no text", "\ufeff{\"a\":1}", "1:{\"a\":1}\n"},
		{"a JSON array is its elements", "[\n {\"a\":1},\n {\"b\":2}\n]\n", "2:{\"a\":1}\n3:{\"b\":2}\n"},
		{"NDJSON, with empty lines", "{\"a\":1}\n\n{\"b\":2}\r\n", "1:{\"a\":1}\n3:{\"b\":2}\n"},
		{"a broken line hides no other", "{\"a\":1}\n{\"b\":}\n{\"c\":3}\n{\"d\"\n{\"e\":5}\n", "1:{\"a\":1}\n3:{\"c\":3}\n5:{\"e\":5}\n" +
			"! f:2:6: not JSON: invalid character '}' at start of value\n! f:4:5: not JSON: invalid character '{' after object name (expecting ':')\n"},
		{"JSON that ends too early", "{\"a\":1}\n{\"b\":[", "1:{\"a\":1}\n! f:2:7: the JSON ends too early\n"},
		{"text that is not UTF-8", "a: 1\nb: \xff\n", "! f:2:4: not UTF-8 text; save the file as UTF-8\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, faults := Parse("f", []byte(tc.text))
			require.Equal(t, tc.want, render(docs, faults))
			for _, f := range faults {
				require.True(t, f.Unreadable)
			}
		})
	}
}

func TestAPointerLeadsToItsPlace(t *testing.T) {
	texts := map[string]string{
		"yaml":   "---\nx: 1\n---\nslug: web\nrules:\n  - action: allow\n    ports: {from: 1, to: 2}\n  - action: deny\na/b: 1\n",
		"json":   "{\"x\":1}\n\n\n{\"slug\": \"web\",\n\"rules\":\n  [{\"action\": \"allow\",\n    \"ports\": {\"from\": 1, \"to\": 2}},\n   {\"action\": \"deny\"}],\n\"a/b\": 1}\n",
		"ndjson": "{\"x\":1}\n\n\n{\"slug\":\"web\",\"rules\":[{\"action\":\"allow\",\"ports\":{\"from\":1,\"to\":2}},{\"action\":\"deny\"}],\"a/b\":1}\n",
	}
	for format, want := range map[string][]string{
		"yaml":   {"4:1", "4:7", "6:5", "6:13", "7:19", "8:5", "9:6", "8:5", "4:1"},
		"json":   {"4:1", "4:2", "6:4", "6:5", "7:15", "8:4", "9:1", "8:4", "4:1"},
		"ndjson": {"4:1", "4:2", "4:24", "4:25", "4:51", "4:69", "4:88", "4:69", "4:1"},
	} {
		docs, faults := Parse("f", []byte(texts[format]))
		require.Empty(t, faults)
		require.Len(t, docs, 2)
		var got []string
		for _, pointer := range []string{"", "/slug", "/rules/0", "/rules/0/action", "/rules/0/ports/from", "/rules/1", "/a~1b", "/rules/1/ports/from", "/selector"} {
			line, column := docs[1].At(pointer)
			got = append(got, fmt.Sprintf("%d:%d", line, column))
		}
		require.Equal(t, want, got, format)
	}
}

func TestAliasesCannotGrowWithoutEnd(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i, i, i, i, i)
	}
	docs, faults := Parse("f", []byte(b.String()))
	require.Empty(t, docs)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0].Message, "too large once its aliases")
}

func TestLoadReadsFilesDirectoriesAndStdin(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.json": `{"b":1}`, "a.yaml": "a: 1", "sub/c.ndjson": "{\"c\":1}\n", ".hidden.yaml": "h: 1", "README.md": "# no"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	docs, faults := Load([]string{dir, "-", filepath.Join(dir, "nope.yaml")}, strings.NewReader("s: 1"))
	require.Equal(t, "1:{\"a\":1}\n1:{\"b\":1}\n1:{\"c\":1}\n1:{\"s\":1}\n! "+filepath.Join(dir, "nope.yaml")+": no such file or directory\n", render(docs, faults))
	require.Equal(t, "stdin", docs[3].File)
}

func TestALinkToADirectoryIsOne(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "current")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("a: 1"), 0o600))
	require.NoError(t, os.Symlink(dir, link))
	docs, faults := Load([]string{link}, strings.NewReader(""))
	require.Equal(t, "1:{\"a\":1}\n", render(docs, faults))
	require.Equal(t, filepath.Join(link, "a.yaml"), docs[0].File)
}

// A link to a directory is read wherever it stands, and each directory once: links may lead
// around. What is passed over is passed over by name.
func TestLinksToDirectoriesAreFollowedOnce(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	for name, text := range map[string]string{filepath.Join(dir, "a.yaml"): "a: 1", filepath.Join(dir, "sub", "b.yaml"): "b: 1", filepath.Join(elsewhere, "c.yaml"): "c: 1"} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	for link, to := range map[string]string{"shared": elsewhere, "sub/up": dir, "again": elsewhere, ".hidden": elsewhere, "z.yaml": filepath.Join(elsewhere, "c.yaml")} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	docs, faults := Load([]string{dir}, strings.NewReader(""))
	require.Equal(t, "1:{\"a\":1}\n1:{\"c\":1}\n1:{\"b\":1}\n1:{\"c\":1}\n", render(docs, faults))
	require.Equal(t, filepath.Join(dir, "again", "c.yaml"), docs[1].File)
}

// A link that leads nowhere may be to a directory of policies that is not mounted now.
func TestALinkThatLeadsNowhereIsSaid(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("a: 1"), 0o600))
	require.NoError(t, os.Symlink("not-there", filepath.Join(dir, ".hidden")))
	docs, faults := Load([]string{dir}, strings.NewReader(""))
	require.Equal(t, "1:{\"a\":1}\n", render(docs, faults))
	team := filepath.Join(dir, "team")
	require.NoError(t, os.Symlink("not-there", team))
	_, faults = Load([]string{dir}, strings.NewReader(""))
	require.Equal(t, "! "+dir+": a link leads nowhere; mend or remove it: stat "+team+": no such file or directory\n", render(nil, faults))
}

// A pipe that lies in a directory would be waited for. One that is named is meant.
func TestAPipeInADirectoryIsSaid(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "a.yaml"), filepath.Join(t.TempDir(), "link.yaml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink(pipe, link))
	for _, where := range []string{dir, filepath.Dir(link)} {
		_, err := Expand(where)
		require.ErrorContains(t, err, "is no file, but a pipe or a device; remove it, or name it by itself")
	}
	files, err := Expand(pipe)
	require.NoError(t, err)
	require.Equal(t, []string{pipe}, files)
}

// endless is a text that goes on.
type endless string

func (e endless) Read(p []byte) (int, error) {
	return copy(p, strings.Repeat(string(e), 1+len(p)/len(e))), nil
}

// What has no end is given up, and takes no memory for ever: a device, or the wrong file.
func TestWhatIsNoTextOrHasNoEndIsGivenUp(t *testing.T) {
	for _, r := range []io.Reader{endless("\x00"), io.MultiReader(strings.NewReader("a: 1\n"), endless("x\x00"))} {
		_, faults := Load([]string{"-"}, r)
		require.Equal(t, "! stdin: not text, it has a byte 0; save the file as UTF-8\n", render(nil, faults))
	}
	for text, want := range map[string]string{"\x00": "", "{\"a\":1}\n\x00": "1:{\"a\":1}\n"} {
		got := ""
		for d, f := range Stream("f", io.MultiReader(strings.NewReader(text), endless("\x00"))) {
			if f != nil {
				got += render(nil, []Fault{*f})
				continue
			}
			got += render([]Document{d}, nil)
		}
		require.Equal(t, want+"! f: not text, it has a byte 0; save the file as UTF-8\n", got)
	}
	_, err := upTo(1000, endless("a: 1\n"))
	require.ErrorContains(t, err, "longer than 1000 bytes")
	text, err := upTo(4, strings.NewReader("a: 1"))
	require.NoError(t, err)
	require.Equal(t, "a: 1", string(text))
}

func FuzzParse(f *testing.F) {
	f.Add("a: &x {q: 1}\nb: *x\n---\n- 1\n")
	f.Add("{\"a\":1}\n{\"b\":}\n[1,2]")
	f.Fuzz(func(t *testing.T, text string) {
		docs, _ := Parse("f", []byte(text))
		for _, d := range docs {
			require.True(t, json.Valid(d.JSON), "%q", d.JSON)
			line, column := d.At("/a/0")
			require.Positive(t, line)
			require.Positive(t, column)
		}
	})
}
