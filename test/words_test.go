package test

import (
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// privateWord is a word that once meant something in this code alone.
type privateWord struct {
	word, use string   // use: the term of the field
	rooms     []string // where it is gone; nil: everywhere
	comments  bool     // in comments and within names, too: it has no ordinary meaning there
}

// privateWords are not to come back. A room that becomes clean of one is added to
// its rooms.
var privateWords = []privateWord{
	{word: "Quarter", use: "Account", comments: true},
	{word: "Joint", use: "AccountLink, an export and its import", comments: true},
	{word: "furnish", use: "set up", comments: true},
	{word: "Standing", use: "the decision or links that are in effect"},
	{word: "standing", use: "listState"},
	{word: "Vouch", use: "Verify", comments: true},
	{word: "Seat", use: "NodeSummary", comments: true},
	{word: "[Mm]uster", use: "ProjectSnapshot", comments: true},
	{word: "Touch", use: "Change", comments: true},
	{word: "Beside", use: "overlapping policies"},
	{word: "teller", use: "edgeRecorder", comments: true},
	{word: "told", use: "sent, announced, published, reported or notified", comments: true},
	{word: "Told", use: "Announced"},
	{word: "settle", use: "complete", rooms: []string{"cmd"}},
	{word: "adopt", use: "apply or keep", comments: true},
	{word: "forsake", use: "detach", comments: true},
	{word: "retell", use: "renew", comments: true},
	{word: "strangers", use: "unknown keys", comments: true},
	{word: "vouch(es|ed)?", use: "confirm, verify or sign", comments: true},
	{word: "thrift", use: "the tuner of garbage collection", comments: true},
	{word: "entrance", use: "the listener's authentication", comments: true},
	{word: "saidOf", use: "the state that was published", comments: true},
}

// namePart is a word within a name.
var namePart = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// boundName is a name of a bound as this code once had them: lookMost for maxLook.
// What is at most something (atMost) is no bound.
var boundName = regexp.MustCompile(`[a-su-z]Most$`)

// TestNoPrivateWords holds names and comments of the product against privateWords.
func TestNoPrivateWords(t *testing.T) {
	whole, spoken := map[string]*regexp.Regexp{}, map[string]*regexp.Regexp{}
	for _, w := range privateWords {
		whole[w.word], spoken[w.word] = regexp.MustCompile(`(?i)^`+w.word+`$`), regexp.MustCompile(`\b`+w.word+`\b`)
	}
	for _, s := range house(t) {
		if s.test() || strings.HasPrefix(s.dir(), "test") || strings.HasPrefix(s.dir(), "internal/test") {
			continue
		}
		names, parts := map[string]bool{}, map[string]bool{}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
			return true
		})
		for name := range names {
			for _, part := range namePart.FindAllString(name, -1) {
				parts[part] = true
			}
			if boundName.MatchString(name) {
				t.Errorf("%s has the name %s; a bound's name begins with max", s.path, name)
			}
		}
		var comments strings.Builder
		for _, group := range s.file.Comments {
			comments.WriteString(group.Text())
		}
		for _, w := range privateWords {
			within := func(room string) bool { return s.dir() == room || strings.HasPrefix(s.dir(), room+"/") }
			if w.rooms != nil && !slices.ContainsFunc(w.rooms, within) {
				continue
			}
			named := names[w.word] || w.comments && slices.ContainsFunc(slices.Collect(maps.Keys(parts)), whole[w.word].MatchString)
			if named || w.comments && spoken[w.word].MatchString(comments.String()) {
				t.Errorf("%s says %q; the term is: %s", s.path, w.word, w.use)
			}
		}
	}
}
