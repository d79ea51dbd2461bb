package api

import (
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/edictdev/edict/api/resource"
)

// problemPage says what a code means, to whoever follows the type of a problem.
var problemPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{if eq (len .) 1}}{{(index . 0).Code}}{{else}}Codes of errors{{end}} · Edict</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:3rem auto;padding:0 1rem}dt{font-family:monospace;margin-top:1rem}</style>
<dl>
{{range .}}<dt id="{{.Code}}">{{.Code}} ({{.Status}})</dt><dd>{{.Meaning}}.</dd>
{{end}}</dl>
<p>A problem says in <code>detail</code> what is wrong this time, and in <code>errors</code> where. <code>edict errors</code> shows this on a command line.</p>
{{if eq (len .) 1}}<p><a href="./">All codes</a></p>
{{end}}</html>
`))

// withProblemPages serves the pages that problems name by their type, to anybody, and
// what else is asked for by next.
func withProblemPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, page := strings.CutPrefix(r.URL.Path, resource.ProblemPath)
		if !page || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		all := ErrorCodes()
		if code != "" {
			at := slices.IndexFunc(all, func(c ErrorCode) bool { return c.Code == code })
			if at < 0 {
				next.ServeHTTP(w, r)
				return
			}
			all = all[at : at+1]
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		h.Set("X-Content-Type-Options", "nosniff")
		_ = problemPage.Execute(w, all) // the client may be gone
	})
}
