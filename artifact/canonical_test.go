package artifact_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/edictdev/edict/artifact"
	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	cases := []struct{ name, in, want string }{
		{"white space goes", " { \"a\" : [ 1 , true , null ] }\n", `{"a":[1,true,null]}`},
		{"names sort, at every depth", `{"b":{"d":1,"c":2},"a":0}`, `{"a":0,"b":{"c":2,"d":1}}`},
		{"names sort by UTF-16 code units", `{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"1":4,"\r":5,"\u0080":6}`, "{\"\\r\":5,\"1\":4,\"\u0080\":6,\"\u20ac\":3,\"\U0001f600\":2,\"\ufb33\":1}"},
		{"a prefix comes before the longer name", `{"aa":1,"a":2,"":3}`, `{"":3,"a":2,"aa":1}`},
		{"only what must be escaped is", `"\u003c\/\u2028\u007f\u0000\u001f\u0008\t\n\f\r\"\\\u00e9"`, "\"</\u2028\u007f\\u0000\\u001f\\b\\t\\n\\f\\r\\\"\\\\\u00e9\""},
		{"the largest integers pass", `[9007199254740991,-9007199254740991]`, `[9007199254740991,-9007199254740991]`},
		{"minus zero is zero", `-0`, `0`},
		{"a lone string is a document", `"x"`, `"x"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := artifact.Canonical([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	cases := []struct{ name, in, says string }{
		{"nothing", ``, "EOF"},
		{"half a document", `{"a":[1`, "EOF"},
		{"a second document", `{} {}`, "follows"},
		{"a fraction, with its place", `{"a":[0,1.5]}`, "/a/1 is 1.5"},
		{"an exponent", `1e2`, "integers"},
		{"an integer readers disagree on", `9007199254740992`, "integers"},
		{"a very long number", strings.Repeat("9", 400), "integers"},
		{"a name said twice", `{"a":1,"\u0061":2}`, "duplicate"},
		{"half a surrogate pair", `"\ud800"`, "surrogate"},
		{"text that is not UTF-8", "\"\xff\"", "UTF-8"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := artifact.Canonical([]byte(c.in))
			require.ErrorContains(t, err, c.says)
		})
	}
}

// What a document took, also one that was refused half way, serves the next and leaves it nothing.
func TestCanonicalBeginsAnew(t *testing.T) {
	for _, refused := range []string{`{"b":[{"d":1,"c":2},1.5]}`, `{"z":1,"a":{"y":1,"x":`, `{"b":1,"a":2} {}`} {
		_, err := artifact.Canonical([]byte(refused))
		require.Error(t, err)
		first, err := artifact.Canonical([]byte(`{"b":{"d":1,"c":2},"a":0}`))
		require.NoError(t, err)
		_, err = artifact.Canonical([]byte(`[{"q":1,"p":"another"},{"q":1,"p":"document"}]`))
		require.NoError(t, err)
		require.Equal(t, `{"a":0,"b":{"c":2,"d":1}}`, string(first)) // it is not written over
	}
}

// nested is an object in an object, and so on, whose names are in no order, around a text.
func nested(depth, size int) []byte {
	return []byte(strings.Repeat(`{"b":`, depth) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(`,"a":1}`, depth))
}

const deep = 9000

func TestCanonicalPutsWhatIsNestedInOrder(t *testing.T) {
	got, err := artifact.Canonical(nested(deep, 1))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat(`{"a":1,"b":`, deep)+`"x"`+strings.Repeat("}", deep), string(got))
}

// What is in the innermost object must not be moved by each that it is in: the floor has the
// text and the depth apart.
func BenchmarkCanonicalOfWhatIsNested(b *testing.B) {
	const text = 4 << 20
	all, wide, narrow := nested(deep, text), nested(1, text), nested(deep, 1)
	took := func(docs ...[]byte) time.Duration {
		began := time.Now()
		for _, doc := range docs {
			_, err := artifact.Canonical(doc)
			require.NoError(b, err)
		}
		return time.Since(began)
	}
	var ours, floor time.Duration
	for b.Loop() {
		ours, floor = ours+took(all), floor+took(wide, narrow)
	}
	b.ReportMetric(float64(ours)/float64(floor), "x-floor")
}

// anyValue draws a document as Go values.
func anyValue(t *rapid.T, depth int) any {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	text := rapid.StringOf(rapid.SampledFrom([]rune("ab\"\\<>&/\n\x01é\u2028\ue000\ufb33\U0001f600\U00010000")))
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return text.Draw(t, "text")
	case 1:
		return rapid.Int64Range(-artifact.MaxInteger, artifact.MaxInteger).Draw(t, "n")
	case 2:
		return rapid.Bool().Draw(t, "b")
	case 3:
		return nil
	case 4:
		list := make([]any, rapid.IntRange(0, 4).Draw(t, "len"))
		for i := range list {
			list[i] = anyValue(t, depth-1)
		}
		return list
	}
	m := map[string]any{}
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		m[text.Draw(t, "name")] = anyValue(t, depth-1)
	}
	return m
}

// slowCanonical sorts names by their UTF-16 encoding, spelt out.
func slowCanonical(v any) string {
	switch v := v.(type) {
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = slowCanonical(v[i])
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		var names []string
		for n := range v {
			at := 0
			for at < len(names) && unitsLess(names[at], n) {
				at++
			}
			names = append(names[:at], append([]string{n}, names[at:]...)...)
		}
		parts := make([]string, len(names))
		for i, n := range names {
			parts[i] = slowCanonical(n) + ":" + slowCanonical(v[n])
		}
		return "{" + strings.Join(parts, ",") + "}"
	case string:
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v)
		return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(b.String(), "\n"))
	default:
		b, _ := json.Marshal(v)
		return string(b)
	}
}

func unitsLess(a, b string) bool {
	x, y := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return len(x) < len(y)
}

func TestCanonicalEqualsTheSlowOracleAndTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(t, 3)
		doc, err := json.MarshalIndent(v, "", "  ")
		require.NoError(t, err)
		got, err := artifact.Canonical(doc)
		require.NoError(t, err)
		require.Equal(t, slowCanonical(v), string(got))
		library, err := jcs.Transform(append(append([]byte{'['}, doc...), ']')) // it takes no lone values
		require.NoError(t, err)
		require.Equal(t, "["+string(got)+"]", string(library))
	})
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[-0,"\u00e9"]}`, `{"a":1,"a":2}`, `1.5`, "\"\xff\"", `[[[]]]`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		once, err := artifact.Canonical(doc)
		if err != nil {
			return
		}
		if !json.Valid(once) {
			t.Fatalf("%q became %q, which is not JSON", doc, once)
		}
		library, err := jcs.Transform(append(append([]byte{'['}, doc...), ']'))
		if err != nil || "["+string(once)+"]" != string(library) {
			t.Fatalf("%q became %q; the library says %q (%v)", doc, once, library, err)
		}
		twice, err := artifact.Canonical(once)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%q became %q, then %q (%v)", doc, once, twice, err)
		}
	})
}
