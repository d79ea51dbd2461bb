package api

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const (
	alphaPage    = 50
	alphaMaxPage = 1000
)

var (
	alphaFilterType    = regexp.MustCompile(`^policy_type\s*=\s*'(GLOBAL|USER)'$`)
	alphaFilterEnabled = regexp.MustCompile(`^enabled\s*=\s*(true|false)$`)
)

// alphaFilter reads a filter into a predicate.
func alphaFilter(text string) (func(projector.AdmissionPolicy) bool, error) {
	keep := alphaShows
	if strings.TrimSpace(text) == "" {
		return keep, nil
	}
	terms := strings.Split(text, " AND ")
	if len(terms) > 2 {
		return nil, alphaInvalid("filter: at most one AND")
	}
	for _, term := range terms {
		term, before := strings.TrimSpace(term), keep
		if m := alphaFilterType.FindStringSubmatch(term); m != nil {
			keep = func(x projector.AdmissionPolicy) bool { return before(x) && x.Document.Level == alphaLevels[m[1]] }
		} else if m := alphaFilterEnabled.FindStringSubmatch(term); m != nil {
			keep = func(x projector.AdmissionPolicy) bool { return before(x) && x.Document.Disabled == (m[1] == "false") }
		} else {
			return nil, alphaInvalid("filter: %q is neither policy_type = 'GLOBAL' or 'USER' nor enabled = true or false", term)
		}
	}
	return keep, nil
}

// alphaKey is what a list is ordered by: of the last policy of a page it says
// where the next one begins, whatever was written meanwhile.
type alphaKey struct {
	Level    policy.Level             `json:"l"`
	Priority int32                    `json:"p"`
	Name     string                   `json:"n"`
	Created  int64                    `json:"c"`
	ID       policy.AdmissionPolicyID `json:"i"`
}

func alphaKeyOf(x projector.AdmissionPolicy) alphaKey {
	return alphaKey{x.Document.Level, x.Document.Priority, strings.ToLower(x.Document.Name), x.CreatedAt.UnixNano(), x.ID}
}

type alphaOrder func(a, b alphaKey) int

func byLevel(a, b alphaKey) int {
	return cmp.Compare(slices.Index(policy.Levels, a.Level), slices.Index(policy.Levels, b.Level))
}

var alphaOrders = map[string]alphaOrder{
	"priority":     func(a, b alphaKey) int { return cmp.Compare(a.Priority, b.Priority) },
	"display_name": func(a, b alphaKey) int { return cmp.Compare(a.Name, b.Name) },
	"create_time":  func(a, b alphaKey) int { return cmp.Compare(a.Created, b.Created) },
}

// alphaOrderBy reads order_by; ids order what is equal.
func alphaOrderBy(text string) (alphaOrder, error) {
	var orders []alphaOrder
	if strings.TrimSpace(text) == "" {
		orders = []alphaOrder{byLevel, alphaOrders["priority"]}
	} else {
		for term := range strings.SplitSeq(text, ",") {
			words := strings.Fields(term)
			if len(words) == 0 || len(words) > 2 || alphaOrders[words[0]] == nil {
				return nil, alphaInvalid("order_by: %q is not priority, display_name or create_time, with asc or desc", strings.TrimSpace(term))
			}
			order := alphaOrders[words[0]]
			if len(words) == 2 {
				switch strings.ToLower(words[1]) {
				case "asc":
				case "desc":
					up := order
					order = func(a, b alphaKey) int { return up(b, a) }
				default:
					return nil, alphaInvalid("order_by: %q is neither asc nor desc", words[1])
				}
			}
			orders = append(orders, order)
		}
	}
	return func(a, b alphaKey) int {
		for _, order := range orders {
			if n := order(a, b); n != 0 {
				return n
			}
		}
		return cmp.Compare(a.ID, b.ID)
	}, nil
}

// alphaToken is a page token: the list it belongs to and its last key.
type alphaToken struct {
	Filter, OrderBy string
	After           alphaKey
}

func (h *alphaHandlers) list(c *call) error {
	q := c.r.URL.Query()
	size := alphaPage
	if text := q.Get("max_page_size"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > alphaMaxPage {
			return problem(http.StatusBadRequest, CodeBadParameter, "max_page_size is a number from 1 to %d, not %q", alphaMaxPage, text)
		}
		size = n
	}
	list := alphaToken{Filter: q.Get("filter"), OrderBy: q.Get("order_by")}
	keep, err := alphaFilter(list.Filter)
	if err != nil {
		return err
	}
	order, err := alphaOrderBy(list.OrderBy)
	if err != nil {
		return err
	}
	token := q.Get("page_token")
	if token != "" {
		var at alphaToken
		b, err := base64.RawURLEncoding.Strict().DecodeString(token)
		if err != nil || json.Unmarshal(b, &at) != nil || at.After.ID == "" || at.Filter != list.Filter || at.OrderBy != list.OrderBy {
			return problem(http.StatusBadRequest, CodeBadCursor, "page_token is no next_page_token of this list")
		}
		list = at
	}
	var items []projector.AdmissionPolicy
	h.model.Read(func(v *projector.View) {
		items = v.AdmissionPolicies(func(x projector.AdmissionPolicy) bool {
			return keep(x) && (token == "" || order(alphaKeyOf(x), list.After) > 0)
		})
	})
	slices.SortFunc(items, func(a, b projector.AdmissionPolicy) int { return order(alphaKeyOf(a), alphaKeyOf(b)) })
	out := resource.AlphaPolicies{Policies: make([]resource.AlphaPolicy, 0, min(size, len(items)))}
	for _, x := range items[:min(size, len(items))] {
		out.Policies = append(out.Policies, showAlpha(x))
	}
	if len(items) > size {
		list.After = alphaKeyOf(items[size-1])
		if out.NextPageToken, err = encodeToken(list); err != nil {
			return err
		}
	}
	return c.json(http.StatusOK, out)
}
