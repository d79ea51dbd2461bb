package datapath_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// vector is one of the reference's, in its notation: rules are
// [tier] rLEVEL PEER PROTOCOL/PORTS VERDICT, where the peer g is identity 5, h is
// 5 and 6, * is any; a look-up is IDENTITY PROTOCOL/PORT=VERDICT, N for no rule,
// and k5=n counts the entries of identity 5.
type vector struct {
	name  string
	rules string
	want  string
}

// vectors are the 52 of the reference, with the results it marks as right.
var vectors = []vector{
	{"V01", "r0 * t/1024-2047 A; r1 g t/1024-2047 D", "5 t/1500=A 5 t/2048=N k5=0"},
	{"V02", "r0 * t/1024-2047 A; r1 * t/1080 D", "5 t/1080=A k5=0 k*=1"},
	{"V03", "r0 * t/1024-2047 A; r1 g t/* D", "5 t/1500=A 5 t/80=D 6 t/80=N k5=1"},
	{"V04", "r0 * t/1024-2047 A; r1 g u/53 D", "5 u/53=D 5 t/1500=A 6 u/53=N"},
	{"V05", "r0 * t/* D; r1 * t/1024-2047 A", "5 t/1500=D 7 u/1500=N k*=1"},
	{"V06", "r0 * t/* A; r1 * t/80 D; r1 g t/80 D", "5 t/80=A 6 t/80=A k5=0"},
	{"V07", "r0 g t/* A; r1 * t/80 D", "5 t/80=A 5 t/81=A 6 t/80=D 6 t/81=N k5=1"},
	{"V08", "r0 g t/* D; r1 * t/80 A", "5 t/80=D 6 t/80=A"},
	{"V09", "r0 g t/80 A; r0 g t/80 D", "5 t/80=D k5=1"},
	{"V10", "r0 g t/* D; r0 g t/80 A", "5 t/80=D k5=1"},
	{"V11", "r0 g t/* A; r0 g t/80 D", "5 t/80=D 5 t/81=A k5=2"},
	{"V12", "r0 * t/80 D; r0 g t/* A", "5 t/80=D 5 t/81=A"},
	{"V13", "r0 g t/80 A; r1 g any D", "5 t/80=A 5 t/81=D 5 u/80=D k5=2"},
	{"V14", "r0 g t/* R; r0 g t/80 A", "5 t/80=R 5 t/81=R k5=1"},
	{"V15", "r0 g t/80 R; r0 g t/* A", "5 t/80=R 5 t/81=A k5=2"},
	{"V16", "r0 g t/80 A; r1 g t/80 R", "5 t/80=A"},
	{"V17", "r0 g t/80 R; r1 g any D", "5 t/80=R 5 t/81=D"},
	{"V18", "r0 g any D; r1 g t/80 R", "5 t/80=D k5=1"},
	{"V19", "r0 * t/80 R; r0 g t/80 A", "5 t/80=R 6 t/80=R k5=0"},
	{"V20", "r0 g t/1-1023 A", "5 t/1=A 5 t/1023=A 5 t/1024=N k5=10"},
	{"V21", "r0 g t/100-200 D; r1 g t/150-300 A", "5 t/99=N 5 t/100=D 5 t/150=D 5 t/200=D 5 t/201=A 5 t/300=A 5 t/301=N k5=11"},
	{"V22", "r0 g t/150-300 A; r1 g t/100-200 D", "5 t/149=D 5 t/150=A 5 t/200=A 5 t/201=A 5 t/300=A k5=12"},
	{"V23", "r0 g any D; r1 g t/80 A", "5 t/80=D 5 u/1=D k5=1"},
	{"V24", "r0 * t/* D; r1 * any A", "5 t/80=D 5 u/80=A 5 i/8=A"},
	{"V25", "r0 g any/53 A", "5 t/53=A 5 u/53=A 5 s/53=A 5 i/53=N 5 t/54=N k5=3"},
	{"V26", "r0 h t/80 D; r1 g t/80 A", "5 t/80=D 6 t/80=D k5=1"},
	{"V27", "r0 g t/80 A; r1 h any D; r2 * any A", "5 t/80=A 5 t/81=D 6 t/80=D 7 t/80=A"},
	{"V28", "r0 * t/80 A; r0 g t/80 A", "5 t/80=A k5=0"},
	{"V29", "r0 g t/80 A", "6 t/80=N 7 u/1=N"},
	{"V30", "admin r0 g any P; admin r1 * any D; r0 g t/80 A", "5 t/80=A 5 t/81=N 6 t/80=D"},
	{"V31", "admin r0 g t/* P; admin r1 * any D; baseline r0 * t/80 A", "5 t/80=A 5 t/81=N 5 u/80=D 6 t/80=D"},
	{"V32", "admin r0 * any P; admin r1 g any D; r0 g t/80 A", "5 t/80=A 5 t/81=N"},
	{"V33", "admin r0 g t/81 D; admin r1 g any P; admin r2 * any D; r0 g t/80-95 A", "5 t/80=A 5 t/81=D 5 t/82=A 5 t/95=A 5 t/96=N"},
	{"V34", "admin r0 g t/* P; admin r1 * any D; r0 g t/80 P; r1 * any D; baseline r0 * any A", "5 t/80=A 5 t/81=D 5 u/80=D 6 t/80=D"},
	{"V35", "admin r0 g t/80 P; admin r0 g t/80 A; r0 g any D", "5 t/80=A 5 t/81=D"},
	{"V36", "r0 g t/* A!; r0 g t/80 A", "5 t/80=A! 5 t/81=A!"},
	{"V37", "r0 g t/* A!; r0 g t/80 A+off", "5 t/80=A 5 t/81=A!"},
	{"V38", "r0 g t/80 A; r1 g t/* A!", "5 t/80=A 5 t/81=A!"},
	{"V39", "r0 g t/* A!; r1 g t/80 A", "5 t/80=A! k5=1"},
	{"V40, by the specification's words", "r0 g t/* A; r1 g t/80 A!", "5 t/80=A 5 t/81=A"},
	{"V41", "r0 * t/* A!; r0 g t/80 A", "5 t/80=A! 6 t/80=A!"},
	{"V42", "r0 * t/* A!; r1 g t/80 A", "5 t/80=A! k5=0"},
	{"V43", "r0 g t/80 A; r1 * t/* A!", "5 t/80=A 6 t/80=A!"},
	{"V44", "r0 g t/* D; r1 g t/80 A!", "5 t/80=D k5=1"},
	{"V51", "admin r0 g t/* P; admin r1 g any A; r0 h t/10 A", "5 t/10=A 5 t/3=N 5 u/3=A"},
	{"V52", "r0 * t/* A!; r0 g t/80 A+off", "5 t/80=A 6 t/80=A!"},
}

// change is a vector of identities that come and go.
type change struct {
	vector
	before, remove, add string
	adds, deletes       int
}

var changes = []change{
	{vector{"V45", "r0 g t/80 D; r1 * t/* A", "5 t/80=D"}, "6", "", "5", 1, 0},
	{vector{"V46", "r0 h t/80 D; r1 * t/* A", "any t/80=A 6 t/80=D"}, "5 6", "5", "", 0, 1},
	{vector{"V47", "r0 g t/* D; r1 h t/80 A", "5 t/80=D k5=1"}, "6", "", "5", 1, 0},
	{vector{"V48", "r0 * t/* D; r1 g t/80 A", "5 t/80=D"}, "6", "", "5", 0, 0},
	{vector{"V49", "r0 g t/80 D; r1 * t/* A", "5 t/80=D"}, "5 6", "5", "5", 0, 0},
	{vector{"V50", "admin r0 g t/* P; admin r1 g any A; r0 h t/10 A", "5 t/10=A 5 t/3=N 5 u/3=A"}, "6", "", "5", 3, 0},
}

func TestTheReferenceVectors(t *testing.T) {
	require.Equal(t, 52, len(vectors)+len(changes))
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			table, err := datapath.Build(v.parse(t), numbered("5 6 7"), datapath.Options{})
			require.NoError(t, err)
			v.check(t, table)
		})
	}
	for _, v := range changes {
		t.Run(v.name, func(t *testing.T) {
			s := datapath.NewState(datapath.Options{})
			_, err := s.Apply(datapath.Batch{AddRules: v.parse(t), AddIdentities: numbered(v.before)})
			require.NoError(t, err)
			c, err := s.Apply(datapath.Batch{RemoveIdentities: strings.Fields(v.remove), AddIdentities: numbered(v.add)})
			require.NoError(t, err)
			v.check(t, s.Table())
			require.Len(t, c.Adds, v.adds)
			require.Len(t, c.Deletes, v.deletes)
		})
	}
}

func TestAuthIsInheritedAsThePageSays(t *testing.T) {
	for _, v := range []vector{
		{"at one key and level, the rule for some peers speaks", "r0 * t/80 A!; r0 g t/80 A+off", "5 t/80=A 6 t/80=A!"},
		{"and says required as well", "r0 * t/80 A+off; r0 g t/80 A!", "5 t/80=A! 6 t/80=A"},
		{"at one key and level, required speaks", "r0 g t/80 A+off; r0 h t/80 A!", "5 t/80=A! 6 t/80=A!"},
		{"a wider rule of the level speaks whatever its class", "r0 g t/* A!; r0 g t/80 R", "5 t/80=R! 5 t/81=A!"},
		{"a narrower rule of lower class adds nothing", "r0 g t/* R; r0 g t/80 A!", "5 t/80=R 5 t/81=R"},
		{"a narrower rule of lower class takes nothing away", "r0 g t/* R!; r0 g t/80 A+off", "5 t/80=R! 5 t/81=R!"},
		{"an equal key behind adds nothing", "r0 g t/80 A; r1 g t/80 A!", "5 t/80=A"},
		{"a rule for some behind one for any adds nothing", "r0 * t/80 A; r1 g t/80 A!", "5 t/80=A 6 t/80=A"},
		{"a rule for any speaks where the one for some does not match", "r0 g t/* A; r1 * t/80 A!", "5 t/80=A 6 t/80=A!"},
		{"rules behind take nothing away", "r0 g t/* A; r1 g t/80-81 A+off; r2 g t/80 A!", "5 t/80=A"},
		{"and add nothing", "r0 g t/* A; r1 g t/80-81 A!; r2 g t/80 A+off", "5 t/80=A 5 t/81=A 5 t/82=A"},
		{"what a pass skips does not speak", "admin r0 g t/80 P; admin r1 g t/* A!; r0 g any A", "5 t/80=A 5 t/81=A!"},
		{"nor does a lower tier", "admin r0 g any A; baseline r0 g t/80 A!", "5 t/80=A 5 t/81=A"},
		{"a deny has none", "r0 g any D; r1 g t/80 A!; r2 * t/* A!", "5 t/80=D 6 t/80=A!"},
	} {
		t.Run(v.name, func(t *testing.T) {
			table, err := datapath.Build(v.parse(t), numbered("5 6 7"), datapath.Options{})
			require.NoError(t, err)
			v.check(t, table)
		})
	}
}

// TestOnlyEntriesThatAreNeededAreKept counts what no answer shows.
func TestOnlyEntriesThatAreNeededAreKept(t *testing.T) {
	for _, v := range []vector{
		{"a pass for everyone needs no entry above its tier", "admin r0 * any P; r0 g t/* A; r1 * t/80 D", "5 t/80=A 5 t/81=A 6 t/80=D k5=1"},
		{"what any identity is told anyway", "r0 * t/80 A; r1 g t/* D; r2 g t/81 A", "5 t/80=A 5 t/81=D k5=1"},
		{"who came first counts, where the verdict is the same", "r0 g any D; r0 * t/80 D", "5 t/80=D 5 t/81=D 6 t/80=D k5=2"},
		{"what no flow can reach", "r0 g any A; r1 g t/1-1023 D; r2 * t/80 D", "5 t/80=A k5=1"},
	} {
		t.Run(v.name, func(t *testing.T) {
			table, err := datapath.Build(v.parse(t), numbered("5 6 7"), datapath.Options{})
			require.NoError(t, err)
			v.check(t, table)
		})
	}
}

// numbered are the identities of the reference.
func numbered(names string) (ids []datapath.Identity) {
	for _, name := range strings.Fields(names) {
		id := datapath.Identity{Name: name}
		switch name {
		case "5":
			id.Labels = policy.Labels{{Key: "g"}, {Key: "h"}}
		case "6":
			id.Labels = policy.Labels{{Key: "h"}}
		}
		ids = append(ids, id)
	}
	return ids
}

var protocols = map[string]datapath.Protocol{
	"t": datapath.TCP, "u": datapath.UDP, "s": datapath.SCTP, "i": datapath.ICMP, "any": datapath.AnyProtocol,
}

func (v vector) parse(t *testing.T) (rules []datapath.Rule) {
	for i, text := range strings.Split(v.rules, ";") {
		words := strings.Fields(text)
		r := datapath.Rule{Ref: datapath.Ref{Policy: "p", Index: i}, Direction: datapath.Egress, Tier: datapath.Normal}
		if tier, err := datapath.ParseTier(words[0]); err == nil {
			r.Tier, words = tier, words[1:]
		}
		level, err := strconv.Atoi(words[0][1:])
		require.NoError(t, err)
		r.Priority = uint32(level)
		r.Peer = datapath.Peer{Any: words[1] == "*"}
		if !r.Peer.Any {
			r.Peer.Selectors = []policy.Expr{{{Op: policy.Exists, Key: words[1]}}}
		}
		protocol, ports, _ := strings.Cut(words[2], "/")
		r.Protocol = protocols[protocol]
		if ports != "" && ports != "*" {
			from, to, ranged := strings.Cut(ports, "-")
			if !ranged {
				to = from
			}
			_, err := fmt.Sscan(from+" "+to, &r.Ports.From, &r.Ports.To)
			require.NoError(t, err)
		}
		switch words[3][0] {
		case 'A':
			r.Verdict = datapath.Allow
		case 'D':
			r.Verdict = datapath.Deny
		case 'R':
			r.Verdict, r.ProxyPort = datapath.Redirect, 15001
		case 'P':
			r.Verdict = datapath.Pass
		}
		switch words[3][1:] {
		case "!":
			r.Auth = datapath.AuthRequired
		case "+off":
			r.Auth = datapath.AuthDisabled
		}
		rules = append(rules, r)
	}
	return rules
}

func (v vector) check(t *testing.T, table *datapath.Table) {
	words := strings.Fields(v.want)
	for len(words) > 0 {
		if name, n, counts := strings.Cut(words[0], "="); counts {
			count := 0
			id, _ := table.ID(name[1:])
			for _, e := range table.Entries() {
				if e.Direction == datapath.Egress && e.Identity == id {
					count++
				}
			}
			require.Equal(t, n, fmt.Sprint(count), "entries of %s", name[1:])
			words = words[1:]
			continue
		}
		id, _ := table.ID(words[0])
		flow, want, _ := strings.Cut(words[1], "=")
		protocol, ports, _ := strings.Cut(flow, "/")
		port, err := strconv.ParseUint(ports, 10, 16)
		require.NoError(t, err)
		e, ok := table.Lookup(datapath.Egress, id, protocols[protocol], uint16(port))
		require.Equal(t, want, said(e, ok), "%s %s", words[0], words[1])
		words = words[2:]
	}
}

// said is an answer in the reference's notation.
func said(e datapath.Entry, ok bool) string {
	if !ok || e.Default() && e.Verdict == datapath.Deny {
		return "N"
	}
	text := strings.ToUpper(e.Verdict.String()[:1])
	if e.Auth == datapath.AuthRequired {
		text += "!"
	}
	return text
}
