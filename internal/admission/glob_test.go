package admission

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/glob"
	"github.com/stretchr/testify/require"
)

func TestWhatAGlobMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, delimiters string
		yes, no             []string
	}{
		{"", "null", []string{""}, []string{"a"}},
		{"*.example.com", "[]", []string{"api.example.com", ".example.com"}, []string{"a.b.example.com", "example.com"}},
		{"*.example.com", "null", []string{"api.example.com", "a.b.example.com"}, []string{"api.example.org"}},
		{"**.example.com", `["."]`, []string{"a.b.example.com"}, []string{"example.com"}},
		{"*:*", `[":"]`, []string{"a:b", ":"}, []string{"a:b:c", "ab"}},
		{"a?c", "[]", []string{"abc", "aéc", "a\nc"}, []string{"a.c", "ac", "abbc"}},
		{"{cat,b*t,}s", "null", []string{"cats", "bts", "boots", "s"}, []string{"boot"}},
		{"{a,{b,c}d}", "null", []string{"a", "bd", "cd"}, []string{"ad", "b"}},
		{"[abc]", "null", []string{"a"}, []string{"d", "", "ab"}},
		{"[!a-c]", "null", []string{"d", "-"}, []string{"a", "c"}},
		{`[\]]\*\{`, "null", []string{"]*{"}, []string{"]a{"}},
		{"a,b}]", "null", []string{"a,b}]"}, []string{"a"}},
		{"a.+(b)|c", "null", []string{"a.+(b)|c"}, []string{"aaab"}},
	} {
		for i, texts := range [][]string{c.yes, c.no} {
			for _, s := range texts {
				got := evaluate(t, "{}", rego("p", Global, 1, fmt.Sprintf(`{"patch": {"is": glob.match(%q, %s, %q)}}`, c.pattern, c.delimiters, s)))
				require.Contains(t, got, fmt.Sprintf(`"is":%t`, i == 0), "%q %s %q", c.pattern, c.delimiters, s)
			}
		}
	}
	for _, c := range []struct{ pattern, want string }{
		{"{a", "a { is not closed"},
		{"[a", "a [ is not closed"},
		{`[a\`, "a [ is not closed"},
		{"[]", "a [] has no characters"},
		{"[c-a]", "a range ends before it begins"},
		{"[a-z", "a range is not closed"},
		{`a\`, "it ends with a backslash"},
		{strings.Repeat("a", maxGlob+1), "the glob has 16385 bytes, more than 16384"},
	} {
		got := evaluate(t, "{}", rego("p", Global, 1, fmt.Sprintf(`{"reject": glob.match(%q, [], "a")}`, c.pattern)))
		require.Contains(t, got, c.want)
	}
}

// The judge is the library whose patterns these are.
func TestAGlobMatchesWhatItsLibrarySays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func(of ...string) (text string) {
		for range r.IntN(7) {
			text += of[r.IntN(len(of))]
		}
		return text
	}
	for range 20_000 {
		pattern := some("a", "b", ".", "*", "?", "**", "{a,b}", "{a,*b}", "{.,a}", "[ab]", "[!a]", "[a-b]", "é", `\*`, "-")
		var delimiters []rune
		if r.IntN(2) == 0 {
			delimiters = []rune{'.'}
		}
		judge, err := glob.Compile(pattern, delimiters...)
		require.NoError(t, err, pattern)
		expr, err := globExpression(pattern, delimiters)
		require.NoError(t, err, pattern)
		ours := regexp.MustCompile(expr)
		for range 4 {
			text := some("a", "b", ".", "é", "*", "-", "\n")
			require.Equal(t, judge.Match(text), ours.MatchString(text), "%q with delimiters %q against %q", pattern, string(delimiters), text)
		}
	}
}

// Each star would be gone back to for each place of the others.
func TestAPatternOfManyWildcardsIsHeldAgainstATextOnce(t *testing.T) {
	e := NewEngine(EngineOptions{Limits: Limits{PolicyTimeout: time.Minute, ChainTimeout: time.Minute}})
	k := strings.Repeat("a", 1000)
	for _, c := range []struct{ what, answer, want string }{
		{"alternatives", `glob.match("{*a,*b}{*a,*b}{*a,*b}{*a,*b}{*b,*c}", null, input.current_request_payload.k)`, "passed"},
		{"stars", `glob.match("*a*a*a*a*a*a*a*a*[!a]", [], input.current_request_payload.k)`, "passed"},
		{"a long text", `glob.match(concat("", ["*?" | some i in numbers.range(1, 8000)]), [], concat("", [input.current_request_payload.k, input.current_request_payload.k]))`, "eval_builtin_error"},
		{"many delimiters", `glob.match(concat("", ["*?" | some i in numbers.range(1, 1000)]), split(input.current_request_payload.k, ""), "a")`, "eval_builtin_error"},
		{
			"a template that is no regular expression itself",
			`regex.template_match(concat("", ["(<", concat("", ["(a?){900}" | some i in numbers.range(1, 100)]), "b>"]), input.current_request_payload.k, "<", ">")`,
			"eval_builtin_error",
		},
		{"a template", `regex.template_match("urn:<a*>:x", input.current_request_payload.k, "<", ">")`, "passed"},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := compiled(t, rego("p", User, 1, `{"reject": true} if `+c.answer))
			_, err := e.Evaluate(t.Context(), s, Request{Payload: map[string]any{"k": k}}, Options{})
			require.Equal(t, c.want, outcome(err), "%v", err)
		})
	}
}

// "prod*-" without delimiters and "prod*" with the delimiter "-" are not one pattern.
func TestAPolicyDoesNotChangeWhatTheGlobsOfOthersMatch(t *testing.T) {
	guard := rego("guard", Global, 1, `{"reject": true} if glob.match("prod*", ["-"], input.current_request_payload.name)`)
	mallory := rego("mallory", User, 1, `{"reject": true} if glob.match("prod*-", null, "x")`)
	require.Contains(t, evaluate(t, "{}", mallory), "APPROVED")
	require.Contains(t, evaluate(t, `{"name": "prod"}`, guard), "rejected by guard")
}
