package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// compileTree is "compiled DIR VERSION [changed] [second] [elsewhere]": it writes the compiled tree
// of the example repository; changed: with a service in another group; second: signed by another
// signer; elsewhere: of another rete with the same nodes, whose certificate is elsewhere.crt. As retectl compile does it, nodes of a tree that is there keep what says the same. Keys
// and the certificate of the signer are written to the working directory.
func compileTree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: compiled DIR VERSION [changed] [second] [elsewhere]")
	}
	version, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	repo, signer, cert := reterepo.Example(), "primary", "primary"
	for _, word := range args[2:] {
		switch word {
		case "second":
			signer = word
			continue
		case "elsewhere":
			f := repo["rete.yaml"]
			f.Data = []byte(strings.Replace(string(f.Data), "rete-lovers", "elsewhere.example", 1))
			reterepo.Enroll(repo)
			cert = word
			continue
		}
		f := repo["services/teams.yaml"]
		f.Data = []byte(strings.Replace(string(f.Data), "addr: \"127.0.0.1:27017\", groups: [db]", "addr: \"127.0.0.1:27017\", groups: [admin]", 1))
	}
	dir := ts.MkAbs(args[0])
	nodes := reterepo.Signed(repo, signer, version)
	for node, files := range nodes {
		if signer == "primary" && saysTheSame(dir, files) {
			delete(nodes, node)
		}
	}
	ts.Check(reterepo.WriteTree(nodes, dir))
	for _, name := range []string{"primary", "second"} {
		ts.Check(os.WriteFile(ts.MkAbs(name+".key"), reterepo.KeyPEM(name), 0o600))
	}
	ts.Check(os.WriteFile(ts.MkAbs(cert+".crt"), repo["certs/management-planes/primary.crt"].Data, 0o600))
}

func saysTheSame(dir string, files []reterepo.File) bool {
	for _, f := range files {
		old, err := os.ReadFile(filepath.Join(dir, f.Path))
		if err != nil {
			return false
		}
		a, errA := artifact.Parse(old)
		b, errB := artifact.Parse(f.Text)
		if errA != nil || errB != nil || !bytes.Equal(a.Payload, b.Payload) {
			return false
		}
	}
	return true
}

// holdsTree is "holds NODE DIR": the plane gives the node the files of the tree, byte for byte.
func holdsTree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: holds NODE DIR")
	}
	resp, err := http.Get(ts.Getenv("EDICT_SERVER") + "/v1/nodes/" + args[0] + "/artifacts")
	ts.Check(err)
	defer resp.Body.Close()
	var got resource.Items[resource.Artifact]
	ts.Check(json.NewDecoder(resp.Body).Decode(&got))
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[1]), args[0], "mgmt", "*.json"))
	ts.Check(err)
	vertices, err := filepath.Glob(filepath.Join(ts.MkAbs(args[1]), args[0], "mgmt", "vertices", "*.json"))
	ts.Check(err)
	files = append(files, vertices...)
	if len(files) == 0 || len(files) != len(got.Items) {
		ts.Fatalf("%s holds %d artifacts, the tree has %d", args[0], len(got.Items), len(files))
	}
	for i, path := range files {
		text, err := os.ReadFile(path)
		ts.Check(err)
		if got.Items[i].Document != string(text) {
			ts.Fatalf("%s %s of %s is not %s", got.Items[i].Kind, got.Items[i].Name, args[0], path)
		}
	}
}
