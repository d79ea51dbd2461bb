package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// exampleRete is the name of the rete of $WORK/repo.
const exampleRete = "rete-lovers"

// enrolled is "enrolled USER": the log of repo has a sign-event for the user.
func enrolled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: enrolled USER")
	}
	id := rete.SPIFFE(exampleRete, rete.PrincipalUser, args[0])
	appendLog(ts, reterepo.Event(rete.EventSign, exampleRete, id, reterepo.Fingerprint(id)))
}

func appendLog(ts *testscript.TestScript, events string) {
	log := ts.ReadFile("repo/enrollment.log") + events
	ts.Check(os.WriteFile(ts.MkAbs("repo/enrollment.log"), []byte(log), 0o644))
}

// introduce is "introduce NAME": repo has one more signer, enrolled, whose key is in
// NAME.key.
func introduce(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: introduce NAME")
	}
	path := certify(ts, args[0], args[0], args[0])
	edit(ts, false, []string{"repo/rete.yaml", `      keys:\n`, `      keys:\n        - { name: ` + args[0] + `, cert: ` + path + ` }\n`})
}

// rekey is "rekey NAME KEY": the signer of that name has the key of another, and the
// certificate at certs/management-planes/KEY.crt says so.
func rekey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: rekey NAME KEY")
	}
	certify(ts, args[0], args[1], args[1])
}

// certify enrols a signer with a key, writes certificate and key, and returns the
// path of the certificate.
func certify(ts *testscript.TestScript, name, key, file string) string {
	id := reterepo.SignerID(exampleRete, name)
	cert := reterepo.Issue(reterepo.SignerTemplate(id), reterepo.CA(exampleRete, "ca"), reterepo.Key(key).Public(), reterepo.Key("ca"))
	path := "certs/management-planes/" + file + ".crt"
	ts.Check(os.WriteFile(ts.MkAbs("repo/"+path), reterepo.PEM(cert), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(key+".key"), reterepo.KeyPEM(key), 0o600))
	appendLog(ts, reterepo.Event(rete.EventSign, exampleRete, id, rete.Fingerprint(cert)))
	return path
}

// listens is "listens NODE KIND/NAME ADDRESS": the compiled tree of repo gives a
// principal of the node that listener, and no other.
func listens(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: listens NODE KIND/NAME ADDRESS")
	}
	var doc struct{ Payload rete.VertexPayload }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("repo/.flor/compiled/"+args[0]+"/mgmt/vertices/flor.json")), &doc))
	id := rete.SPIFFE(exampleRete, strings.Split(args[1], "/")...)
	i := slices.IndexFunc(doc.Payload.Workloads, func(w rete.Workload) bool { return w.SPIFFE == id })
	if i < 0 {
		ts.Fatalf("%s is not on %s", id, args[0])
	}
	if io := doc.Payload.Workloads[i].IO; len(io) != 1 || io[0].Listen != args[2] {
		ts.Fatalf("%s has %+v, want the listener %s", id, io, args[2])
	}
}
