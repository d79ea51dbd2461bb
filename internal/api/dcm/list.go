package dcm

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Policies a page.
const (
	DefaultPage = 50
	MaxPage     = 1000
)

var (
	filterType    = regexp.MustCompile(`^policy_type\s*=\s*'(GLOBAL|USER)'$`)
	filterEnabled = regexp.MustCompile(`^enabled\s*=\s*(true|false)$`)
)

// parseFilter reads a filter into a predicate.
func parseFilter(text string) (func(projector.AdmissionPolicy) bool, error) {
	keep := Shows
	if strings.TrimSpace(text) == "" {
		return keep, nil
	}
	terms := strings.Split(text, " AND ")
	if len(terms) > 2 {
		return nil, invalid("filter: at most one AND")
	}
	for _, term := range terms {
		term, before := strings.TrimSpace(term), keep
		if m := filterType.FindStringSubmatch(term); m != nil {
			keep = func(x projector.AdmissionPolicy) bool { return before(x) && x.Document.Level == levels[m[1]] }
		} else if m := filterEnabled.FindStringSubmatch(term); m != nil {
			keep = func(x projector.AdmissionPolicy) bool { return before(x) && x.Document.Disabled == (m[1] == "false") }
		} else {
			return nil, invalid("filter: %q is neither policy_type = 'GLOBAL' or 'USER' nor enabled = true or false", term)
		}
	}
	return keep, nil
}

// key is what a list is ordered by: of the last policy of a page it says
// where the next one begins, whatever was written meanwhile.
type key struct {
	Level    policy.Level             `json:"l"`
	Priority int32                    `json:"p"`
	Name     string                   `json:"n"`
	Created  int64                    `json:"c"`
	ID       policy.AdmissionPolicyID `json:"i"`
}

func keyOf(x projector.AdmissionPolicy) key {
	return key{x.Document.Level, x.Document.Priority, strings.ToLower(x.Document.Name), x.CreatedAt.UnixNano(), x.ID}
}

type order func(a, b key) int

func byLevel(a, b key) int {
	return cmp.Compare(slices.Index(policy.Levels, a.Level), slices.Index(policy.Levels, b.Level))
}

var fieldOrders = map[string]order{
	"priority":     func(a, b key) int { return cmp.Compare(a.Priority, b.Priority) },
	"display_name": func(a, b key) int { return cmp.Compare(a.Name, b.Name) },
	"create_time":  func(a, b key) int { return cmp.Compare(a.Created, b.Created) },
}

// parseOrder reads order_by; ids order what is equal.
func parseOrder(text string) (order, error) {
	orders := []order{byLevel, fieldOrders["priority"]}
	if strings.TrimSpace(text) != "" {
		orders = nil
		for term := range strings.SplitSeq(text, ",") {
			o, err := parseTerm(term)
			if err != nil {
				return nil, err
			}
			orders = append(orders, o)
		}
	}
	return func(a, b key) int {
		for _, order := range orders {
			if n := order(a, b); n != 0 {
				return n
			}
		}
		return cmp.Compare(a.ID, b.ID)
	}, nil
}

// parseTerm reads one term of order_by: a field, and asc or desc.
func parseTerm(term string) (order, error) {
	words := strings.Fields(term)
	if len(words) == 0 || len(words) > 2 || fieldOrders[words[0]] == nil {
		return nil, invalid("order_by: %q is not priority, display_name or create_time, with asc or desc", strings.TrimSpace(term))
	}
	up := fieldOrders[words[0]]
	if len(words) == 1 {
		return up, nil
	}
	switch strings.ToLower(words[1]) {
	case "asc":
		return up, nil
	case "desc":
		return func(a, b key) int { return up(b, a) }, nil
	}
	return nil, invalid("order_by: %q is neither asc nor desc", words[1])
}

// pageToken is a page token: the list it belongs to and its last key.
type pageToken struct {
	Filter, OrderBy string
	After           key
}

// List lists the policies of the surface, a page at a time.
func List(u UseCases, query url.Values) (Answer, error) {
	size, err := pageSize(query)
	if err != nil {
		return Answer{}, err
	}
	list := pageToken{Filter: query.Get("filter"), OrderBy: query.Get("order_by")}
	keep, err := parseFilter(list.Filter)
	if err != nil {
		return Answer{}, err
	}
	order, err := parseOrder(list.OrderBy)
	if err != nil {
		return Answer{}, err
	}
	if text := query.Get("page_token"); text != "" {
		if list, err = list.resume(text); err != nil {
			return Answer{}, err
		}
	}
	items := u.List(func(x projector.AdmissionPolicy) bool {
		return keep(x) && (list.After.ID == "" || order(keyOf(x), list.After) > 0)
	})
	slices.SortFunc(items, func(a, b projector.AdmissionPolicy) int { return order(keyOf(a), keyOf(b)) })
	out := resource.AlphaPolicies{Policies: make([]resource.AlphaPolicy, 0, min(size, len(items)))}
	for _, x := range items[:min(size, len(items))] {
		out.Policies = append(out.Policies, show(x))
	}
	if len(items) > size {
		list.After = keyOf(items[size-1])
		b, err := json.Marshal(list)
		if err != nil {
			return Answer{}, fmt.Errorf("encode the page token: %w", err)
		}
		out.NextPageToken = base64.RawURLEncoding.EncodeToString(b)
	}
	return Answer{Status: http.StatusOK, Body: out}, nil
}

func pageSize(query url.Values) (int, error) {
	text := query.Get("max_page_size")
	if text == "" {
		return DefaultPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPage {
		return 0, wrongType("max_page_size is a number from 1 to %d, not %q", MaxPage, text)
	}
	return n, nil
}

// resume reads the token that a page of the same list ended with.
func (t pageToken) resume(text string) (at pageToken, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || json.Unmarshal(b, &at) != nil || at.After.ID == "" || at.Filter != t.Filter || at.OrderBy != t.OrderBy {
		return at, invalid("page_token is no next_page_token of this list")
	}
	return at, nil
}
