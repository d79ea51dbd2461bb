package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

const module = "github.com/edictdev/edict"

// rooms are the folders at the top and in internal/, each with the others it may import.
var rooms = map[string][]string{
	"policy":      {},
	"compiler":    {"policy"},
	"fault":       {},
	"backoff":     {},
	"wire":        {"policy"},
	"streams":     {"backoff", "fault", "wire", "policy"},
	"artifact":    {"fault", "policy"},
	"archive":     {"fault", "projector", "streams", "wire", "compiler", "artifact", "policy"},
	"disk":        {"streams", "wire", "policy"},
	"datadir":     {"snapshot", "relay", "projector", "streams", "wire", "compiler", "artifact", "policy"},
	"keyring":     {"backoff", "fault", "streams", "wire", "artifact", "policy"},
	"integrity":   {"backoff", "projector", "streams", "wire", "compiler", "artifact", "policy"},
	"projector":   {"backoff", "fault", "streams", "wire", "compiler", "artifact", "policy"},
	"relay":       {"backoff", "fault", "projector", "streams", "wire", "compiler", "artifact", "policy"},
	"snapshot":    {"fault", "projector", "streams", "wire", "compiler", "artifact", "policy"},
	"convergence": {"backoff", "projector", "streams", "wire", "compiler", "artifact", "policy"},
	"rollout":     {"backoff", "fault", "convergence", "projector", "streams", "policy"},
	"admission":   {"projector", "streams", "wire", "compiler", "artifact", "policy"},
	"access":      {"backoff", "fault", "projector", "streams", "wire", "compiler", "artifact", "policy"},
	"api":         {"backoff", "fault", "keyring", "relay", "snapshot", "convergence", "rollout", "admission", "access", "projector", "streams", "wire", "compiler", "artifact", "policy"},
	"listener":    {"access", "datadir", "streams"},
	"controller":  {"backoff", "api", "compiler", "policy"},
	"worker":      {"api", "datadir", "keyring", "relay", "streams"},
	"plane": {
		"listener", "worker", "integrity", "api", "ui", "datadir", "disk", "keyring", "relay", "snapshot", "convergence", "rollout", "admission", "access",
		"projector", "streams", "wire", "compiler", "artifact", "policy",
	},
	"node":    {"backoff", "compiler", "artifact", "wire", "policy"},
	"enforce": {"compiler", "policy"},
	"cmd": {
		"fault", "backoff",
		"plane", "listener", "controller", "api", "node", "enforce", "archive", "datadir", "disk", "keyring", "integrity", "relay", "snapshot", "convergence", "admission", "access",
		"projector", "streams", "wire", "compiler", "artifact", "policy",
	},
	"ui":     {},
	"deploy": {},
}

// keepers names, for a library by the start of its path, the rooms that may
// import it.
var keepers = map[string][]string{
	"github.com/cockroachdb/pebble": {"projector", "snapshot"},
	"github.com/nats-io/nats":       {"streams", "relay", "node"}, // nats.go and nats-server
	"github.com/nats-io/jwt":        {"access", "streams"},        // streams: limits of an account of the embedded server
	"github.com/nats-io/nkeys":      {"access"},
	"go.opentelemetry.io/":          {"cmd"},
	"google.golang.org/protobuf":    {"cmd"},
	// Untrusted Rego and untrusted schemas are run in one place, under its limits.
	"github.com/open-policy-agent/": {"admission"},
	"github.com/santhosh-tekuri/":   {"admission"},
	"github.com/coreos/go-oidc/":    {"access"},
	"github.com/coreos/go-systemd/": {"cmd"},
	"sigs.k8s.io/knftables":         {"enforce"},
	"k8s.io/":                       {"cmd", "controller"}, // cmd: clients of an API server, and jsonpath
	"github.com/spiffe/":            {"access"},
	"github.com/minio/minio-go/":    {"archive"},
	"github.com/cenkalti/backoff/":  {"backoff"},
}

// forbidden names what a pure room must not reach for: it reads files through
// fs.FS and knows neither disk nor network.
var forbidden = map[string][]string{
	"policy":   {"os", "net", "net/http", "os/exec", "math/rand", "math/rand/v2", "log/slog"},
	"compiler": {"os", "net", "net/http", "os/exec", "math/rand", "math/rand/v2", "log/slog"},
}

// libraries the plane is built from; another earns its place in
// docs/decisions.md first. The second list is for tests alone.
var (
	libraries = []string{
		"github.com/nats-io/", "github.com/cockroachdb/pebble/v2", "github.com/google/uuid",
		"github.com/prometheus/client_golang", "github.com/RoaringBitmap/roaring/v2",
		"github.com/go-json-experiment/json", "github.com/spf13/cobra", "github.com/spf13/pflag", // cobra's flags
		"github.com/jedib0t/go-pretty/v6", "github.com/coreos/go-systemd/v22",
		"go.yaml.in/yaml/v4", "github.com/klauspost/compress", "golang.org/x/", "github.com/transparency-dev/merkle",
		"go.opentelemetry.io/", "github.com/go-logr/logr", // through which OpenTelemetry reports
		"github.com/KimMachineGun/automemlimit/memlimit",
		"github.com/bmatcuk/doublestar/v4",
		"github.com/open-policy-agent/opa/v1/", "github.com/santhosh-tekuri/jsonschema/v6",
		"github.com/coreos/go-oidc/v3/", "github.com/spiffe/go-spiffe/v2/", "sigs.k8s.io/knftables",
		"k8s.io/client-go/", "k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/klog/", // the controller; jsonpath, as kubectl has it
		"github.com/minio/highwayhash", // the checksum of the server's records
		"github.com/minio/minio-go/v7", // archives in buckets
		"github.com/cenkalti/backoff/v5",
	}
	testLibraries = []string{
		"github.com/stretchr/testify", "pgregory.net/rapid", "github.com/rogpeppe/go-internal",
		"go.uber.org/goleak", "github.com/anishathalye/porcupine", "github.com/prometheus/",
		"github.com/gowebpki/jcs", "google.golang.org/grpc", "google.golang.org/protobuf", // what collectors take
		"github.com/cloudevents/sdk-go/v2/event", // the judge of our events
		"github.com/gobwas/glob",                 // the judge of our patterns
	}
)

// source is one parsed Go file of the module.
type source struct {
	path  string // below the module root, with slashes
	room  string
	lines int
	file  *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }
func (s source) dir() string {
	return filepath.ToSlash(filepath.Dir(s.path))
}

func (s source) imports() []string {
	var paths []string
	for _, i := range s.file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, path)
	}
	return paths
}

// house is every Go file of the module.
func house(t *testing.T) []source {
	t.Helper()
	all, err := parseHouse()
	require.NoError(t, err)
	require.Greater(t, len(all), 10, "the walk found the module")
	return all
}

var parseHouse = sync.OnceValues(func() ([]source, error) {
	root, err := gen.ModuleRoot()
	if err != nil {
		return nil, err
	}
	var all []source
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "tools" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		all = append(all, source{rel, roomOf(rel), strings.Count(string(text), "\n"), file})
		return nil
	})
	return all, err
})

// roomOf is the room of a path below the module root: the folder at the top, or
// the one in internal/.
func roomOf(path string) string {
	top, _, _ := strings.Cut(strings.TrimPrefix(path, "internal/"), "/")
	return top
}

// TestArrowsPointDown holds the picture of ARCHITECTURE.md against the imports.
// Tests of a room may reach anywhere but into cmd: they set rooms side by side.
func TestArrowsPointDown(t *testing.T) {
	for _, s := range house(t) {
		if s.room == "test" || s.room == "docs" {
			continue
		}
		allowed, known := rooms[s.room]
		if !known {
			t.Errorf("%s: %q is no room of the house; add it to the picture and to this test", s.path, s.room)
			continue
		}
		for _, path := range s.imports() {
			below, ours := strings.CutPrefix(path, module+"/")
			if !ours {
				continue
			}
			to := roomOf(below)
			switch {
			case to == s.room, slices.Contains(allowed, to):
			case s.test() && to != "cmd":
			default:
				t.Errorf("%s imports %s: %s may import %v of ours. Declare an interface where it is needed instead", s.path, path, s.room, allowed)
			}
		}
	}
}

// TestExamplesImportWhatOthersMay keeps the examples honest: whoever copies one
// has only what is not under internal/.
func TestExamplesImportWhatOthersMay(t *testing.T) {
	for _, s := range house(t) {
		if s.room != "docs" || s.test() {
			continue
		}
		for _, path := range s.imports() {
			if strings.HasPrefix(path, module+"/internal/") || strings.HasPrefix(path, module+"/cmd/") {
				t.Errorf("%s imports %s, which another module cannot", s.path, path)
			}
		}
	}
}

// TestTheDoorShowsNothingOfTheInside keeps types of internal/ out of what package
// plane exports: nobody outside could name them.
func TestTheDoorShowsNothingOfTheInside(t *testing.T) {
	for _, s := range house(t) {
		if s.dir() != "plane" || s.test() {
			continue
		}
		inside := map[string]bool{}
		for _, path := range s.imports() {
			if strings.HasPrefix(path, module+"/internal/") {
				inside[path[strings.LastIndex(path, "/")+1:]] = true
			}
		}
		for _, shown := range s.exported() {
			ast.Inspect(shown, func(n ast.Node) bool {
				if x, ok := n.(*ast.SelectorExpr); ok {
					if of, ok := x.X.(*ast.Ident); ok && inside[of.Name] {
						t.Errorf("%s exports %s.%s", s.path, of.Name, x.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// exported is what another package sees of a file: signatures, and types with
// their exported fields.
func (s source) exported() (shown []ast.Node) {
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				shown = append(shown, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				x, ok := spec.(*ast.TypeSpec)
				if !ok || !x.Name.IsExported() {
					continue
				}
				fields, ok := x.Type.(*ast.StructType)
				if !ok {
					shown = append(shown, x.Type)
					continue
				}
				for _, f := range fields.Fields.List {
					if len(f.Names) == 0 || f.Names[0].IsExported() {
						shown = append(shown, f.Type)
					}
				}
			}
		}
	}
	return shown
}

func TestLibrariesHaveTheirKeepers(t *testing.T) {
	for _, s := range house(t) {
		free := s.test() || s.room == "test" || s.room == "docs"
		for _, path := range s.imports() {
			if slices.Contains(forbidden[s.room], path) && !free {
				t.Errorf("%s imports %s: %s is pure", s.path, path, s.room)
			}
			for library, keep := range keepers {
				if strings.HasPrefix(path, library) && !slices.Contains(keep, s.room) && !free {
					t.Errorf("%s imports %s: only %v may", s.path, path, keep)
				}
			}
			first, _, _ := strings.Cut(path, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(path, module) {
				continue // the standard library, or ours
			}
			listed := func(list []string) bool {
				return slices.ContainsFunc(list, func(l string) bool { return strings.HasPrefix(path, l) })
			}
			if !listed(libraries) && !(free && listed(testLibraries)) {
				t.Errorf("%s imports %s, which is not a library of the house; docs/decisions.md says what it takes", s.path, path)
			}
		}
	}
}

// TestTheOracleStandsAlone keeps the judge from sharing code with the accused, but
// for what an event id is made of.
func TestTheOracleStandsAlone(t *testing.T) {
	for _, s := range house(t) {
		if s.test() || s.dir() != "internal/test/oracle" && s.dir() != "internal/test/oracle/firstmatch" && s.dir() != "internal/test/gen" {
			continue
		}
		for _, path := range s.imports() {
			if strings.HasPrefix(path, module) && path != module+"/policy" {
				t.Errorf("%s imports %s", s.path, path)
			}
		}
		for _, name := range s.takes("policy") {
			if !slices.Contains([]string{"EventID", "NewEventID", "EndOf", "NumberTable", "NumberArtifact", "NumberWithdrawn"}, name) {
				t.Errorf("%s takes policy.%s", s.path, name)
			}
		}
	}
}

// takes are the names that a file uses of a package.
func (s source) takes(pkg string) (names []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if x, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := x.X.(*ast.Ident); ok && of.Name == pkg && of.Obj == nil {
				names = append(names, x.Sel.Name)
			}
		}
		return true
	})
	return names
}

// TestTheAgentReadsTheContractItself keeps the agent that the plane is tried
// with, its tests too, from sharing code with the plane or with other tests; it
// is made from the standard library.
func TestTheAgentReadsTheContractItself(t *testing.T) {
	met := 0
	for _, s := range house(t) {
		if s.dir() != "internal/test/plexd" {
			continue
		}
		met++
		for _, path := range s.imports() {
			first, _, _ := strings.Cut(path, "/")
			if strings.HasPrefix(path, module) || !s.test() && strings.Contains(first, ".") {
				t.Errorf("%s imports %s", s.path, path)
			}
		}
	}
	require.Greater(t, met, 5, "the agent is where this test looks for it")
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	docs := map[string]string{}
	for _, s := range house(t) {
		if s.test() {
			continue
		}
		if _, seen := docs[s.dir()]; !seen {
			docs[s.dir()] = ""
		}
		if s.file.Doc != nil {
			if docs[s.dir()] != "" {
				t.Errorf("%s: the package has its doc in another file already", s.path)
			}
			docs[s.dir()] += s.file.Doc.Text()
		}
	}
	for dir, doc := range docs {
		if len(strings.Fields(doc)) < 8 {
			t.Errorf("%s: no package doc that says what the package is for", dir)
		}
	}
}

func TestNoFileOutgrowsItsNoun(t *testing.T) {
	const wish, limit = 500, 600
	for _, s := range house(t) {
		switch {
		case s.test():
		case s.lines > limit:
			t.Errorf("%s has %d lines, more than %d: move its second noun out", s.path, s.lines, limit)
		case s.lines > wish:
			t.Logf("%s has %d lines: is it about one noun still?", s.path, s.lines)
		}
	}
}

// maxMethods is how many methods a type has before it is several.
const maxMethods = 40

func TestNoTypeOutgrowsItsNoun(t *testing.T) {
	methods := map[string]int{}
	for _, s := range house(t) {
		if s.test() || strings.HasPrefix(s.dir(), "test") || strings.HasPrefix(s.dir(), "internal/test") {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[s.dir()+"."+receiver(f)]++
			}
		}
	}
	for of, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods; give what has a name of its own a type", of, n)
		}
	}
}

func TestNoRoomForOddments(t *testing.T) {
	for _, s := range house(t) {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		if slices.Contains([]string{"util", "utils", "common", "helpers", "misc", "shared", "base"}, name) {
			t.Errorf("%s: package %s says nothing about what is in it", s.path, name)
		}
	}
}

// TestMakesHelpFitsATerminal holds that a target with its help has room in 80 columns, where help prints it.
func TestMakesHelpFitsATerminal(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	require.NoError(t, err)
	const column, most = 24, 80 // expand's stop of the target help
	require.Contains(t, string(text), "expand -t "+strconv.Itoa(column))
	for line := range strings.Lines(string(text)) {
		head, help, ok := strings.Cut(strings.TrimSpace(line), " ## ")
		target, _, named := strings.Cut(head, ":")
		if ok && named {
			require.Less(t, len("  make "+target), column, target)
			require.LessOrEqual(t, column+len(help), most, target)
		}
	}
}
