package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseExpr(t *testing.T) {
	cases := []struct{ name, in, out string }{
		{"equality", "role=web", "role=web"},
		{"inequality", "role!=web", "role!=web"},
		{"a set, sorted and each value once", "role in (web, db,web)", "role in (db,web)"},
		{"existence and absence", "role,!old", "role,!old"},
		{"spaces around every token", " \t! old ,\r\n role  =  web , env in( a , b ) ", "!old,role=web,env in (a,b)"},
		{"the author's order stays", "z,a=1,m!=2", "z,a=1,m!=2"},
		{"an empty value of = and !=", "a=,b!=", "a=,b!="},
		{"a scoped key", "acme:checkout/owner=sre,platform/env", "acme:checkout/owner=sre,platform/env"},
		{"keys that look like operators", "in,notin=a,in in (in)", "in,notin=a,in in (in)"},
		{"no space before the set", "k in(a)", "k in (a)"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e, errs := ParseExpr(c.in)
			require.Empty(t, errs)
			require.Equal(t, c.out, e.String())
		})
	}
}

func TestParseExprNamesEveryFault(t *testing.T) {
	cases := []struct {
		name, in string
		faults   []string // "position: part of the message"
	}{
		{"nothing", "", []string{"0: empty"}},
		{"only spaces", "  \n", []string{"0: empty"}},
		{"a double equals sign", "k==v", []string{"1: write key=value"}},
		{"no value set", "k in", []string{"4: want '('"}},
		{"an empty set", "k in ()", []string{"6: want a value"}},
		{"an empty value in a set", "k in (a,)", []string{"8: want a value"}},
		{"an open set", "k in (a", []string{"7: opens at byte 5"}},
		{"values without a comma", "k in (a b)", []string{"8: want ',' or ')'"}},
		{"notin", "k notin (a,b),c", []string{"2: there is no 'notin'"}},
		{"a word where an operator belongs", "role is web", []string{"5: found \"is\""}},
		{"a sign where an operator belongs", "role(", []string{"4: found '('"}},
		{"two values", "k=a b", []string{"4: want ',' between clauses"}},
		{"an empty clause at the start", ",a", []string{"0: a clause is missing"}},
		{"an empty clause inside", "a, ,b", []string{"3: a clause is missing"}},
		{"an empty clause at the end", "a,", []string{"2: a clause is missing"}},
		{"no key", "=v", []string{"0: want a label key"}},
		{"nothing to negate", "!", []string{"1: a clause is missing"}},
		{"a negated test", "!k=v", []string{"2: want ','"}},
		{"a bad byte in a key", "ro*le=web", []string{"2: letters, digits"}},
		{"upper case in a prefix", "acmE/x", []string{"3: prefix"}},
		{"a bad byte in a value", "k=a/b", []string{"3: letters, digits"}},
		{"text that is not ASCII", "k=é", []string{"2: letters, digits"}},
		{"several, each with its place", "a==b,ok,k in (x,,y),c d", []string{"1: ==", "16: want a value", "22: found \"d\""}},
		{"more clauses than allowed", strings.Repeat("a,", 64) + "a", []string{"128: more than 64"}},
		{"more values than allowed", "k in (" + strings.Repeat("a,", 256) + "a)", []string{"518: more than 256"}},
		{"more text than allowed", strings.Repeat(" ", 8193), []string{"8192: at most 8192"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e, errs := ParseExpr(c.in)
			require.Nil(t, e)
			require.Len(t, errs, len(c.faults), "%v", errs)
			for i, want := range c.faults {
				at, part, _ := strings.Cut(want, ": ")
				require.Equal(t, at, fmt.Sprint(errs[i].Position), "%v", errs[i])
				require.Contains(t, errs[i].Message, part)
			}
		})
	}
}

func TestClausesOnNodes(t *testing.T) {
	node := map[string]string{"role": "web", "env": "prod", "empty": ""}
	for in, want := range map[string]bool{
		"role=web": true, "role=db": false, "missing=web": false,
		"role!=web": false, "role!=db": true, "missing!=web": true,
		"role in (db,web)": true, "role in (db)": false, "missing in (web)": false,
		"role": true, "missing": false, "!role": false, "!missing": true,
		"empty=": true, "missing=": false, "empty!=": false, "empty": true,
		"role=web,env=prod": true, "role=web,env=dev": false, "Role=web": false,
	} {
		e, errs := ParseExpr(in)
		require.Empty(t, errs)
		labels, err := NewLabels(node, "")
		require.NoError(t, err)
		require.Equal(t, want, e.Matches(labels), in)
	}
}

func TestASelectorMatchesByEitherSide(t *testing.T) {
	parse := func(s string) Expr { e, _ := ParseExpr(s); return e }
	s := Selector{parse("role=web"), parse("role=db")}
	for role, want := range map[string][2]bool{"web": {true, false}, "db": {false, true}, "x": {false, false}} {
		l := Labels{{"role", role}}
		require.Equal(t, want, [2]bool{s.Source.Matches(l), s.Destination.Matches(l)}, role)
		require.Equal(t, want[0] || want[1], s.Matches(l))
	}
}

func TestSelectorKey(t *testing.T) {
	key := func(source, destination string) string {
		a, errs := ParseExpr(source)
		require.Empty(t, errs)
		b, errs := ParseExpr(destination)
		require.Empty(t, errs)
		return Selector{a, b}.Key()
	}
	require.Equal(t, key("a=1,b,!c", "d"), key(" ! c, a = 1,b ,a in (1)", "d,d"))
	require.NotEqual(t, key("a", "b"), key("b", "a"), "sides are not exchangeable")
	require.NotEqual(t, key("a,b", "c"), key("a", "b,c"))
	require.NotEqual(t, key("a=b", "c"), key("a!=b", "c"))
	require.NotEqual(t, key("a=", "c"), key("a", "c"))
}

// slowMatches is the meaning of an expression on a map.
func slowMatches(e Expr, m map[string]string) bool {
	for _, c := range e {
		v, ok := m[c.Key]
		holds := false
		switch c.Op {
		case Equal, In:
			holds = ok && slices.Contains(c.Values, v)
		case NotEqual:
			holds = !(ok && v == c.Values[0])
		case Exists:
			holds = ok
		case Absent:
			holds = !ok
		}
		if !holds {
			return false
		}
	}
	return true
}

func TestExpressions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, labels := anyExpr(t), anyLabels(t)
		back, errs := ParseExpr(e.String())
		require.Empty(t, errs)
		require.Equal(t, e, back, "printed and read again")
		require.Equal(t, slowMatches(e, labels.Map()), e.Matches(labels))

		shuffled := Expr(rapid.Permutation(e).Draw(t, "order"))
		require.Equal(t, Selector{e, e}.Key(), Selector{shuffled, e}.Key())
		other := anyExpr(t)
		if (Selector{e, e}).Key() == (Selector{e, other}).Key() {
			require.Equal(t, e.Matches(labels), other.Matches(labels), "one key, one meaning")
		}
	})
}

func FuzzParseExpr(f *testing.F) {
	for _, s := range []string{"role=web", "a!=b, !c ,d in (e, f)", "k==v", "a,,b", "k in (a", "acme:x/y=", "!", "\x00", "é=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, errs := ParseExpr(s)
		if (len(e) == 0) != (len(errs) > 0) {
			t.Fatalf("%q: %d clauses, %d faults", s, len(e), len(errs))
		}
		for _, err := range errs {
			if err.Position < 0 || err.Position > len(s) {
				t.Fatalf("%q: fault outside the text: %v", s, err)
			}
		}
		if len(errs) > 0 {
			return
		}
		back, errs := ParseExpr(e.String())
		if len(errs) > 0 || back.String() != e.String() {
			t.Fatalf("%q prints as %q, which reads as %q (%v)", s, e, back, errs)
		}
	})
}
