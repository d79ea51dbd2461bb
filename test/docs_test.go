package test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// TestEachAttackHasItsTest holds the tests that docs/faults.md names to be there.
func TestEachAttackHasItsTest(t *testing.T) {
	there := map[string]bool{}
	for _, s := range house(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test() {
				there[f.Name.Name] = true
			}
		}
	}
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "faults.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## What was tried")
	section, _, _ = strings.Cut(section, "\n## ")
	named := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(section, -1)
	require.Greater(t, len(named), 20)
	for _, m := range named {
		require.True(t, there[m[1]], "docs/faults.md names %s, and there is no such test", m[1])
	}
}

// contracts are methods that the standard library documents: everybody knows
// what they promise.
var contracts = strings.Fields(`String Error Unwrap Is As MarshalText UnmarshalText MarshalJSON UnmarshalJSON
	AppendText ServeHTTP Write Read Close Flush Len Less Swap Push Pop Describe Collect Enabled Handle WithAttrs WithGroup`)

// TestExportedNamesAreExplained asks a doc comment of every exported name. One
// on a group serves its members; a method that an interface explains, its
// package's or the standard library's, needs none of its own.
func TestExportedNamesAreExplained(t *testing.T) {
	all := house(t)
	explained := map[string]map[string]bool{} // directory → methods of its interfaces
	for _, s := range all {
		if explained[s.dir()] == nil {
			explained[s.dir()] = map[string]bool{}
			for _, m := range contracts {
				explained[s.dir()][m] = true
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						explained[s.dir()][name.Name] = true
					}
				}
			}
			return true
		})
	}
	for _, s := range all {
		if s.test() || s.room == "cmd" && s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			for _, name := range unexplained(d, explained[s.dir()]) {
				t.Errorf("%s: %s has no doc comment", s.path, name)
			}
		}
	}
}

// unexplained are the exported names of a declaration without a comment.
func unexplained(d ast.Decl, methods map[string]bool) []string {
	var names []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Doc != nil {
			return nil
		}
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		if of := receiver(d); ast.IsExported(of) && !methods[d.Name.Name] {
			return []string{of + "." + d.Name.Name}
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT || d.Doc != nil {
			return nil
		}
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil && spec.Comment == nil {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() && spec.Doc == nil && spec.Comment == nil {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// receiver is the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	switch e := d.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	default:
		return typeName(e)
	}
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}
