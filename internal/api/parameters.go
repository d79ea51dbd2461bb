package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// CodeUnknownParameter means that the query has what the route does not know, or a parameter twice.
const CodeUnknownParameter = "unknown_parameter"

// checkParameters refuses a query that the route does not know whole: a filter or a
// condition that is misspelt, or the second of two, must not count as none.
func (c *call) checkParameters() error {
	if c.r.URL.RawQuery == "" || c.route.Method == "" || c.route.foreign { // no route
		return nil
	}
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return broken(http.StatusBadRequest, CodeUnknownParameter, "", "the query cannot be read: %v", err)
	}
	known := c.route.queryNames()
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch {
		case slices.Contains(known, name) && len(q[name]) > 1:
			return broken(http.StatusBadRequest, CodeUnknownParameter, "/"+name, "the query has %s twice, and it is not known which is meant: give it once", name)
		case slices.Contains(known, name):
		case len(known) == 0:
			return broken(http.StatusBadRequest, CodeUnknownParameter, "/"+name, "there is no parameter %.64q; this route takes none", name)
		default:
			return broken(http.StatusBadRequest, CodeUnknownParameter, "/"+name, "there is no parameter %.64q; this route takes %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// checkConditions refuses a write on a condition that the route does not look at: it
// would be made as if there were none.
func (r Route) checkConditions(h http.Header) error {
	if r.Method == "" || r.Method == http.MethodGet {
		return nil
	}
	for _, name := range [...]string{headerIfMatch, headerIfNoneMatch} {
		looked := slices.ContainsFunc(r.Params, func(p Param) bool { return p.Name == name })
		if len(h.Values(name)) > 0 && !looked {
			return problem(http.StatusBadRequest, CodeBadHeader, "this route does not look at %s, and nothing was done: send the request without it, if it may be done all the same", name)
		}
	}
	return nil
}

// queryNames are the parameters that a query may have.
func (r Route) queryNames() (names []string) {
	for _, p := range r.Params {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}
