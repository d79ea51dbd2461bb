package test

import (
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

var (
	link    = regexp.MustCompile(`\[([^\]\[]+)\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	mention = regexp.MustCompile(`\b(docs/[a-z-]+\.md)#([a-z0-9-]+)`)
	named   = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]+)`")
	code    = regexp.MustCompile("(?s)```.*?```")
)

// TestLinksOfPagesLead holds that what a page links to is there: the file, its
// section, and in a Go file the name that the link shows.
func TestLinksOfPagesLead(t *testing.T) {
	pages, dir := pages(t), root(t)
	known := sectionsOf(pages)
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			shown, to := strings.Trim(m[1], "`"), m[2]
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			file, section, _ := strings.Cut(to, "#")
			if file = path.Join(path.Dir(page), file); to[0] == '#' {
				file = page
			}
			read, err := os.ReadFile(filepath.Join(dir, file))
			if info, statErr := os.Stat(filepath.Join(dir, file)); statErr == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s links to %s, which is not there", page, to)
				continue
			}
			if section != "" && !known[file][section] {
				t.Errorf("%s links to %s, and %s has no such section", page, to, file)
			}
			if path.Ext(file) == ".go" && token.IsIdentifier(shown) && !declares(string(read), shown) {
				t.Errorf("%s says that %s declares %s", page, file, shown)
			}
		}
	}
}

// TestDecisionsAreListed holds that the table of contents of the decisions has all
// of them. That its links lead, TestLinksOfPagesLead holds.
func TestDecisionsAreListed(t *testing.T) {
	text := pages(t)["docs/decisions.md"]
	linked := map[string]bool{}
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		linked[strings.TrimPrefix(m[2], "#")] = true
	}
	for section := range sections(text) {
		if section != "decisions" && !linked[section] {
			t.Errorf("docs/decisions.md: its table of contents lacks #%s", section)
		}
	}
}

// direct is a dependency in go.mod that the module asks for itself: its path without the
// major version.
var direct = regexp.MustCompile(`(?m)^\t(\S+?)(?:/v\d+)? v\S+$`)

// TestLibrariesHaveAReason holds that the decisions name each library that the product
// or its tests ask for.
func TestLibrariesHaveAReason(t *testing.T) {
	text := pages(t)["docs/decisions.md"]
	mod, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	require.NoError(t, err)
	all := direct.FindAllStringSubmatch(string(mod), -1)
	require.Greater(t, len(all), 30, "the libraries were found")
	for _, m := range all {
		if !regexp.MustCompile(regexp.QuoteMeta(m[1]) + `(/v\d+\b|[^\w/-])`).MatchString(text) {
			t.Errorf("docs/decisions.md does not say why %s", m[1])
		}
	}
}

// TestCommentsLeadToPages holds what a comment of the code says of a page.
func TestCommentsLeadToPages(t *testing.T) {
	known := sectionsOf(pages(t))
	for _, s := range house(t) {
		for _, group := range s.file.Comments {
			for _, m := range mention.FindAllStringSubmatch(group.Text(), -1) {
				if !known[m[1]][m[2]] {
					t.Errorf("%s: there is no %s#%s", s.path, m[1], m[2])
				}
			}
		}
	}
}

// TestPagesNameTestsThatAre holds what pages say about which test shows what.
func TestPagesNameTestsThatAre(t *testing.T) {
	tests := map[string]bool{}
	for _, s := range house(t) {
		for name := range s.file.Scope.Objects {
			tests[name] = true
		}
	}
	for page, text := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which is no test", page, m[1])
			}
		}
	}
}

// pages are the texts of the project's pages, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-co", "--exclude-standard", "*.md")
	list.Dir = root(t)
	out, err := list.Output()
	require.NoError(t, err)
	all := map[string]string{}
	for _, page := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join(root(t), page))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		require.NoError(t, err)
		all[page] = string(text)
	}
	require.Greater(t, len(all), 10, "the pages were found")
	return all
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := gen.ModuleRoot()
	require.NoError(t, err)
	return dir
}

// sectionsOf are the sections of all pages.
func sectionsOf(pages map[string]string) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for page, text := range pages {
		all[page] = sections(text)
	}
	return all
}

// sections are the anchors of a page's headings, as they are made where code is
// read: lower case, without punctuation, a dash for a space.
func sections(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(m[1]) {
			switch {
			case r == ' ' || r == '-':
				b.WriteByte('-')
			case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r > 127:
				b.WriteRune(r)
			}
		}
		anchors[b.String()] = true
	}
	return anchors
}

// declares reports whether a Go file declares a name.
func declares(text, name string) bool {
	return regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |var |const |\t)` + regexp.QuoteMeta(name) + `\b`).MatchString(text)
}
