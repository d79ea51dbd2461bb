// Worlds prints a pattern for go test -run: the tests of packages that try fewer cases under
// the race detector, or none, in order by name.
//
//	go run ./test/worlds FOLDER…
//
// Those are the tests that reach rapid, or Worlds, Every or Unraced of internal/test/gen, themselves
// or through what they use in their package's tests. It goes by names, so a test may be
// found that does not belong there, but none is missing.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	alone := flag.Bool("unraced", false, "only the tests that are left to the run without the race detector")
	flag.Parse()
	marks := drawing
	if *alone {
		marks = unraced
	}
	pattern, err := patternOf(flag.Args(), marks)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worlds:", err)
		os.Exit(1)
	}
	fmt.Println(pattern)
}

// patternOf matches the names of the tests of all folders. A folder without any is an error:
// it was moved, or need not be asked about.
func patternOf(folders []string, marks map[string][]string) (string, error) {
	var all []string
	for _, f := range folders {
		found, err := worldsIn(f, marks)
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", fmt.Errorf("no test in %s is marked, or tries fewer cases under the race detector", f)
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return "^(" + strings.Join(slices.Compact(all), "|") + ")$", nil
}

// worldsIn names the tests of a folder that reach one of the marks.
func worldsIn(folder string, marks map[string][]string) (tests []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	uses := uses{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		uses.add(f, marks)
	}
	for name := range uses.reach(drawn) {
		if aTest.MatchString(name) {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return tests, nil
}

var aTest = regexp.MustCompile(`^(Test|Fuzz|Example)([^a-z]|$)`)

const generator = "github.com/edictdev/edict/internal/test/gen"

// drawn stands for how many cases there are, which is as these say; nil: anything of theirs.
const drawn = "of a package that says how many cases there are"

var drawing = map[string][]string{
	"pgregory.net/rapid": nil,
	generator:            {"Worlds", "Every", "Unraced"},
}

// unraced are the marks of tests that are left to the run without the detector.
var unraced = map[string][]string{generator: {"Unraced"}}

// uses is which names each declaration of some files mentions. Methods are told apart by
// their names alone.
type uses map[string]map[string]bool

func (u uses) add(f *ast.File, marks map[string][]string) {
	draws := map[string][]string{}
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if names, ok := marks[path]; ok {
			as := path[strings.LastIndexByte(path, '/')+1:]
			if i.Name != nil {
				as = i.Name.Name
			}
			draws[as] = names
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			u.mention(d.Name.Name, d, draws)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok { // a type draws nothing: its methods do
					for _, name := range v.Names {
						u.mention(name.Name, v, draws)
					}
				}
			}
		}
	}
}

// mention notes what a declaration mentions. draws are the names, of packages as this file
// imports them, that stand for drawn.
func (u uses) mention(name string, in ast.Node, draws map[string][]string) {
	if u[name] == nil {
		u[name] = map[string]bool{}
	}
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				names, draws := draws[x.Name]
				if draws && (names == nil || slices.Contains(names, n.Sel.Name)) {
					u[name][drawn] = true
				}
			}
		case *ast.Ident:
			u[name][n.Name] = true
		}
		return true
	})
}

// reach is whatever mentions a name, itself or through others.
func (u uses) reach(name string) map[string]bool {
	found := map[string]bool{name: true}
	for more := true; more; {
		more = false
		for by, mentioned := range u {
			if !found[by] && slices.ContainsFunc(slices.Collect(maps.Keys(mentioned)), func(m string) bool { return found[m] }) {
				found[by], more = true, true
			}
		}
	}
	return found
}
