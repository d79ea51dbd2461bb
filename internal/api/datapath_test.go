package api_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/snapshot"
)

const tableOfDB = "/v1/nodes/db/datapath"

func (p *plane) table(path string) resource.Datapath {
	a := p.do("GET", path, "")
	p.want(http.StatusOK, "", a)
	return into[resource.Datapath](p.t, a)
}

func ordered(slug, order string, rules ...string) string {
	return `{"slug":"` + slug + `","selector":{"source":"role=web","destination":"role=db"}` + order + `,"rules":[` + strings.Join(rules, ",") + `]}`
}

const (
	allowWeb = `{"action":"allow","protocol":"tcp","source_selector":"role=web","destination_selector":"role=db","ports":{"from":5432,"to":5432}}`
	denyWeb  = `{"action":"deny","protocol":"any","source_selector":"role=web","destination_selector":"role=db"}`
	proxied  = `{"action":"redirect","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":81,"to":81},"proxy_port":15001}`
	fromTen  = `{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":80,"to":80}}`
)

// A table follows policies, labels and addresses, and its tag changes exactly
// when it does.
func TestATableFollowsWhatItIsMadeOf(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.1"]}`)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", `,"tier":"admin"`, allowWeb, denyWeb)))

	explain := func(peer string) string {
		a := p.do("GET", "/v1/nodes/db/explain?direction=ingress&protocol=tcp&port=5432&peer="+peer, "")
		p.want(http.StatusOK, "", a)
		return into[resource.FlowVerdict](t, a).Verdict
	}
	tag := ""
	changes := func(want bool) {
		t.Helper()
		a := p.do("GET", tableOfDB, "")
		p.want(http.StatusOK, "", a)
		require.Equal(t, want, a.Header.Get("ETag") != tag)
		tag = a.Header.Get("ETag")
		require.Equal(t, http.StatusNotModified, p.do("GET", tableOfDB, "", "If-None-Match: "+tag).StatusCode)
	}
	changes(true)
	require.Equal(t, "allow", explain("web"))
	require.Equal(t, "allow", explain("10.2.0.1"), "the address is the node")
	require.Equal(t, "deny", explain("10.2.0.2"), "nobody's address: the default")

	p.put("other", `{"labels":{"role":"cache"}}`)
	changes(false) // it is nobody's peer
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.2"]}`)
	changes(true)
	require.Equal(t, "allow", explain("10.2.0.2"))
	p.put("web", `{"labels":{"role":"app"},"addresses":["10.2.0.2"]}`)
	changes(true)
	require.Equal(t, "deny", explain("10.2.0.2"))
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.2"]}`)
	changes(true)

	// The same rules in another order are the same rows and another table.
	rows := string(p.do("GET", "/v1/nodes/db/rulesets", "").body)
	made := into[resource.Page[resource.Policy]](t, p.do("GET", policies, "")).Items[0]
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+made.ID.String(), `{"rules":[`+denyWeb+","+allowWeb+`]}`))
	changes(true)
	require.Equal(t, "deny", explain("web"))
	fingerprint := func(rows string) string {
		return into[resource.Items[resource.Ruleset]](t, answer{body: []byte(rows)}).Items[0].Fingerprint
	}
	require.Equal(t, fingerprint(rows), fingerprint(string(p.do("GET", "/v1/nodes/db/rulesets", "").body)))

	// Without the tier, deny goes before allow whatever the order.
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+made.ID.String(), `{"tier":null,"rules":[`+allowWeb+","+denyWeb+`]}`))
	require.Equal(t, "deny", explain("web"))
}

// An explanation took the first node of all that have an address, also one that no rule
// names, where the table, the block and the kernel know only the others.
func TestAnAddressOfTwoNodesIsTheOneThatTheTableHas(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	for _, n := range []string{"web-2", "web-1"} {
		p.put(n, `{"labels":{"role":"web","name":"`+n+`"},"addresses":["10.2.0.1"]}`)
	}
	p.put("cache", `{"labels":{"role":"cache"},"addresses":["10.2.0.1"]}`)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", `,"tier":"admin"`, strings.Replace(allowWeb, `"role=web"`, `"role=web,name=web-1"`, 1), denyWeb)))

	p.agreed("10.2.0.1/32", "10.2.0.1", "allow")
	p.put("web-1", `{"labels":{"role":"cache"},"addresses":["10.2.0.1"]}`)
	p.agreed("10.2.0.1/32", "10.2.0.1", "deny")
	p.put("web-2", `{"labels":{"role":"cache"},"addresses":["10.2.0.1"]}`)
	p.agreed("0.0.0.0/0", "10.2.0.1", "deny")
}

// agreed asks for port 5432 of db what an explanation and the first rule of the block
// about ingress from a source say.
func (p *plane) agreed(source, peer, want string) {
	p.t.Helper()
	a := p.do("GET", "/v1/nodes/db/explain?direction=ingress&protocol=tcp&port=5432&peer="+peer, "")
	p.want(http.StatusOK, "", a)
	require.Equal(p.t, want, into[resource.FlowVerdict](p.t, a).Verdict)
	b := into[resource.NodeState](p.t, p.do("GET", "/v1/nodes/db/state", ""))
	i := slices.IndexFunc(b.Policy.Rules, func(r resource.Rule) bool {
		return r.DestinationCIDR == "10.1.0.1/32" && r.SourceCIDR == source
	})
	require.GreaterOrEqual(p.t, i, 0, "%+v", b.Policy.Rules)
	require.Equal(p.t, want, b.Policy.Rules[i].Action)
}

func TestTheFingerprintOfATableIsOfItsBytes(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", "", fromTen)))
	body := string(p.do("GET", tableOfDB, "").body)
	from := strings.Index(body, `"identities":`)
	sum := sha256.Sum256([]byte("{" + body[from:]))
	var doc resource.Datapath
	require.NoError(t, json.Unmarshal([]byte(body), &doc))
	require.Equal(t, base64.StdEncoding.EncodeToString(sum[:]), doc.Fingerprint)
	require.Equal(t, []string{"10.0.0.0/8"}, doc.Identities[0].CIDRs)
}

// A large table travels gzip-coded to whoever takes that, and is the same table.
func TestALargeTableIsCoded(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	rules := make([]string, 60)
	for i := range rules {
		rules[i] = strings.Replace(fromTen, `"from":80,"to":80`, fmt.Sprintf(`"from":%d,"to":%d`, 2*i+1, 2*i+1), 1)
	}
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", "", rules...)))
	whole := p.do("GET", tableOfDB, "")
	require.Empty(t, whole.Header.Get("Content-Encoding"))
	coded := p.do("GET", tableOfDB, "", "Accept-Encoding: gzip")
	require.Equal(t, "gzip", coded.Header.Get("Content-Encoding"))
	require.Equal(t, []string{"Available-Dictionary", "Accept-Encoding"}, coded.Header.Values("Vary"))
	require.Less(t, 4*len(coded.body), len(whole.body))
	z, err := gzip.NewReader(bytes.NewReader(coded.body))
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, string(whole.body), string(text))
}

// A rollout asks for tables of nodes that an ordered policy matches, and for no others.
func TestARolloutOfAPlainPolicyAsksForNoTable(t *testing.T) {
	var tables *snapshot.Tables
	p := newPlane(t, func(d *api.Deps) {
		tables = snapshot.NewTables(d.Model, snapshot.TableOptions{})
		d.Tables = tables
	})
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	made := into[resource.Policy](t, p.do("POST", policies, ordered("walls", "", fromTen)))
	before := tables.Counts()
	p.rollout(made.ID.String())
	require.Equal(t, before, tables.Counts())
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+made.ID.String(), `{"tier":"admin"}`))
	p.rollout(made.ID.String())
	require.NotEqual(t, before, tables.Counts())
}

// What the node contract cannot say is denied in a state, counted, and shown whole
// among the rulesets.
func TestAStateCountsTheRulesItLeavesOut(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", "", fromTen, allowWeb, proxied, denyWeb)))
	state := into[resource.NodeState](t, p.do("GET", "/v1/nodes/db/state", ""))
	require.True(t, state.Policy.Resolved)
	require.Equal(t, 1, state.Policy.RulesOmitted)
	rows := into[resource.Items[resource.Ruleset]](t, p.do("GET", "/v1/nodes/db/rulesets", "")).Items
	require.Contains(t, rows[0].RulePayload, `"source_selector":"role=web"`)
	require.NotEqual(t, rows[0].Fingerprint, state.Policy.Fingerprint)
}

// A table beyond its capacity is refused: the last good one stays, and every
// answer about it says so. Without one, the node is told to keep what it has.
func TestATableThatIsTooLargeIsRefused(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Tables = snapshot.NewTables(d.Model, snapshot.TableOptions{Capacity: 2}) })
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("db2", `{"labels":{"role":"db"},"addresses":["10.1.0.2"]}`)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.1"]}`)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", "", denyWeb)))
	good := p.table(tableOfDB)
	require.Nil(t, good.Refused)

	wide := strings.Replace(allowWeb, `"from":5432,"to":5432`, `"from":1,"to":1023`, 1)
	made := into[resource.Page[resource.Policy]](t, p.do("GET", policies, "")).Items[0]
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+made.ID.String(), `{"tier":"admin","rules":[`+wide+`]}`))
	kept := p.table(tableOfDB)
	require.Equal(t, good.Entries, kept.Entries)
	require.Equal(t, good.Fingerprint, kept.Fingerprint)
	require.Equal(t, "too_many_entries", kept.Refused.Code)
	why := into[resource.FlowVerdict](t, p.do("GET", "/v1/nodes/db/explain?direction=ingress&protocol=tcp&port=80&peer=web", ""))
	require.Equal(t, "deny", why.Verdict)
	require.NotNil(t, why.Refused)

	named := map[string]bool{}
	for _, r := range p.rollout(made.ID.String()).Refused {
		named[r.NodeID] = r.Code == "too_many_entries"
	}
	require.True(t, named["db"], "the rollout says so")

	require.Equal(t, good.Version, kept.Refused.AsOf, "and of which facts the older one is made")

	// Nobody asked for this node's table before, and the other worker has not seen
	// the older one: both find it, because it follows from the facts.
	second := p.table("/v1/nodes/db2/datapath")
	require.Equal(t, good.Fingerprint, second.Fingerprint)
	other, ok, err := snapshot.NewTables(p.deps.Model, snapshot.TableOptions{Capacity: 2}).Of(t.Context(), "db")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, good.Fingerprint, other.Fingerprint.String())
	require.Equal(t, kept.Refused.AsOf, other.Refused.AsOf)

	// A node that is gone keeps no table.
	reg := prometheus.NewRegistry()
	api.NewMetrics(reg).Watch(p.deps)
	for _, want := range []float64{3, 2} {
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "edict_datapath_refused_nodes" {
				require.Equal(t, want, f.GetMetric()[0].GetGauge().GetValue())
			}
		}
		p.do("DELETE", nodes+"/db2", "")
	}

	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+made.ID.String(), `{"rules":[`+denyWeb+`]}`))
	require.Nil(t, p.table(tableOfDB).Refused)
}

// Nodes that come later may be what makes a table too large: it stays as it was,
// without them.
func TestATableThatItsPeersMakeTooLargeStaysWithoutThem(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Tables = snapshot.NewTables(d.Model, snapshot.TableOptions{Capacity: 3}) })
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.1"]}`)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", "", allowWeb, denyWeb)))
	good := p.table(tableOfDB)
	for i := range 5 { // until it is one too many
		shard := strconv.Itoa(i)
		p.put("web-"+shard, `{"labels":{"role":"web","shard":"`+shard+`"},"addresses":["10.3.0.`+shard+`"]}`)
		if next := p.table(tableOfDB); next.Refused == nil {
			good = next
		}
	}
	require.NotEmpty(t, good.Entries)
	kept := p.table(tableOfDB)
	require.Equal(t, "too_many_entries", kept.Refused.Code)
	require.GreaterOrEqual(t, kept.Refused.AsOf, good.Version)
	require.Equal(t, good.Fingerprint, kept.Fingerprint)
	why := into[resource.FlowVerdict](t, p.do("GET", "/v1/nodes/db/explain?direction=ingress&protocol=tcp&port=5432&peer=web-4", ""))
	require.Equal(t, "deny", why.Verdict, "a peer that the table does not know is an address like any other")
}

func TestANodeWhoseFirstTableIsTooLargeHasNone(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Tables = snapshot.NewTables(d.Model, snapshot.TableOptions{Capacity: 2}) })
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.1"]}`)
	wide := strings.Replace(allowWeb, `"from":5432,"to":5432`, `"from":1,"to":1023`, 1)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", "", wide)))
	a := p.do("GET", tableOfDB, "")
	p.want(http.StatusUnprocessableEntity, "too_many_entries", a)
	require.Equal(t, "/entries", a.problem(t).Errors[0].Pointer)
}

// Rules that stand at more places in the order than a precedence tells apart are
// refused like entries that are too many. The limit is 2^24; here it is less.
func TestATableOfTooManyPrioritiesIsRefused(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Tables = snapshot.NewTables(d.Model, snapshot.TableOptions{Levels: 2}) })
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("three", `,"tier":"admin"`, fromTen, allowWeb, denyWeb)))
	a := p.do("GET", tableOfDB, "")
	p.want(http.StatusUnprocessableEntity, "too_many_priorities", a)
	require.Equal(t, "/entries", a.problem(t).Errors[0].Pointer)
	id := into[resource.Page[resource.Policy]](t, p.do("GET", policies, "")).Items[0].ID.String()
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+id, `{"rules":[`+allowWeb+`,`+denyWeb+`]}`))
	good := p.table(tableOfDB)
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+id, `{"rules":[`+fromTen+`,`+allowWeb+`,`+denyWeb+`]}`))
	kept := p.table(tableOfDB)
	require.Equal(t, "too_many_priorities", kept.Refused.Code)
	require.Equal(t, good.Entries, kept.Entries)
	require.Equal(t, "too_many_priorities", p.rollout(id).Refused[0].Code)
}

// A rollout asks for the tables of many label sets, and each may be long work: it
// answers with what it knows by then, and nothing is computed for it any more.
func TestARolloutWaitsForTablesNoLongerThanItsPatience(t *testing.T) {
	for name, patience := range map[string]time.Duration{"for none": -1, "for a part": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t, func(d *api.Deps) {
				d.Tables = snapshot.NewTables(d.Model, snapshot.TableOptions{Capacity: 1 << 21})
				d.TablePatience = patience
			})
			const sets = 1000 // so many that a timer that comes late comes before the last
			for i := range sets {
				p.put(fmt.Sprintf("n%d", i), fmt.Sprintf(`{"labels":{"role":"web","n":"v%d"},"addresses":[]}`, i))
			}
			rules := make([]string, 512)
			for i := range rules {
				rules[i] = fmt.Sprintf(`{"action":"allow","protocol":"tcp","source_cidr":"0.0.0.0/0","destination_selector":"role=web,n!=x%d","ports":{"from":%d,"to":%d}}`, i, 1+i, 20000+7*i)
			}
			a := p.do("POST", policies, ordered("crowd", `,"tier":"admin"`, rules...))
			p.want(http.StatusCreated, "", a)
			require.Empty(t, p.rollout(into[resource.Policy](t, a).ID.String()).Refused)
			counts := p.deps.Tables.Counts()
			require.Zero(t, counts.Waiting, "a table is computed for nobody")
			if patience < 0 {
				require.Zero(t, counts.Steps)
			}
			require.Less(t, counts.Outcomes[snapshot.TableComputed], uint64(sets))
		})
	}
}

// A list, which leaves the heads out, says where each policy stands.
func TestAListSaysWherePoliciesStand(t *testing.T) {
	p := newPlane(t)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", `,"tier":"admin","priority":7,"default_deny":false`, denyWeb)))
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("plain", "", fromTen)))
	seven, open := uint32(7), false
	placed := map[string]resource.Order{}
	for _, it := range into[resource.Page[resource.Policy]](t, p.do("GET", policies, "")).Items {
		require.Nil(t, it.Head)
		placed[it.Slug] = it.Order
	}
	require.Equal(t, map[string]resource.Order{"walls": {Tier: "admin", Priority: &seven, DefaultDeny: &open}, "plain": {}}, placed)
}

func TestAPortThatIsNoneOfAFlowHasOneCode(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	for _, port := range []string{"0", "65536", "99999"} {
		a := p.do("GET", "/v1/nodes/db/explain?direction=ingress&protocol=tcp&peer=10.0.0.1&port="+port, "")
		p.want(http.StatusUnprocessableEntity, "port_out_of_range", a)
		require.Equal(t, "/port", a.problem(t).Errors[0].Pointer)
	}
}

// A write that asks for them is answered with the warnings that a dry run of it gave;
// one that does not ask, with none.
func TestAWriteAnswersWithTheWarningsOfADryRun(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Tables = snapshot.NewTables(d.Model, snapshot.TableOptions{Capacity: 2}) })
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.1"]}`)
	wide := strings.Replace(allowWeb, `"from":5432,"to":5432`, `"from":1,"to":1023`, 1)
	warned := func(a answer) (codes []string) {
		require.Less(t, a.StatusCode, 300, a.body)
		var body struct{ Warnings []resource.Warning }
		require.NoError(t, json.Unmarshal([]byte(a.body), &body))
		for _, w := range body.Warnings {
			codes = append(codes, w.Code)
		}
		return codes
	}
	preview := func(rule string) string { return strings.Replace(ordered("walls", "", rule), `"slug":"walls",`, "", 1) }
	foretold := warned(p.do("POST", policies+":dry-run", preview(wide)))
	require.Contains(t, foretold, "too_many_entries")
	made := p.do("POST", policies+"?warnings", ordered("walls", "", wide))
	require.Equal(t, foretold, warned(made))

	path := policies + "/" + into[resource.Policy](t, made).ID.String()
	shadowed := denyWeb + "," + allowWeb
	foretold = warned(p.do("POST", path+"/dry-run", preview(shadowed)))
	require.NotEmpty(t, foretold)
	for asked, want := range map[string][]string{"?warnings=true": foretold, "?warnings=false": nil, "": nil} {
		p.want(http.StatusOK, "", p.do("PATCH", path, `{"rules":[`+wide+`]}`))
		require.Equal(t, want, warned(p.do("PATCH", path+asked, `{"rules":[`+shadowed+`]}`)), asked)
	}
	p.want(http.StatusBadRequest, "wrong_type", p.do("PATCH", path+"?warnings=some", `{"rules":[`+wide+`]}`))
}
