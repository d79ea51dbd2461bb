package rete_test

import (
	"maps"
	"testing"
	"testing/fstest"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// FuzzLoad reads any text as a file of a repository: no panic, and every fault
// has a place and says something.
func FuzzLoad(f *testing.F) {
	example := reterepo.Example()
	for _, file := range example {
		f.Add(file.Data)
	}
	for _, seed := range []string{
		"", "---\n---\n", "a: &a [*a]\n", "<<: {}\n", "groups: {a: !!str b}\n", "nodes: {n: {vertices: [[[[{}]]]]}}\n", "? [a]\n: b\n",
		"groups: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n", "users:\n\t- x\n", "\ufeffrete: {}\n", "services: {? : {}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		repo := maps.Clone(example)
		repo["any.yaml"] = &fstest.MapFile{Data: text}
		names, faults := rete.Discover(repo)
		view, more := rete.Load(repo, names)
		if faults = append(faults, more...); len(faults) == 0 {
			var m *rete.Model
			if m, faults = rete.Validate(view, repo); len(rete.Violations(faults)) == 0 {
				_, more := rete.Compile(m)
				faults = append(faults, more...)
			}
		}
		for _, fault := range faults {
			if fault.Path == "" || fault.Message == "" || fault.Label == "" || fault.Line < 0 {
				t.Fatalf("%+v", fault)
			}
		}
	})
}

// FuzzCertificate reads any bytes as the certificate of a signer, and any as
// that of the CA.
func FuzzCertificate(f *testing.F) {
	example := reterepo.Example()
	f.Add(example["certs/management-planes/primary.crt"].Data, example["certs/ca.crt"].Data)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"), []byte("x"))
	f.Fuzz(func(t *testing.T, signer, ca []byte) {
		repo := maps.Clone(example)
		repo["certs/management-planes/primary.crt"] = &fstest.MapFile{Data: signer}
		repo["certs/ca.crt"] = &fstest.MapFile{Data: ca}
		names, _ := rete.Discover(repo)
		view, _ := rete.Load(repo, names)
		m, faults := rete.Validate(view, repo)
		if len(faults) == 0 && len(m.Signers) != 1 {
			t.Fatal("a repository without fault and without signer")
		}
	})
}

// FuzzEnrollmentLog reads any bytes as the log.
func FuzzEnrollmentLog(f *testing.F) {
	f.Add(reterepo.Example()[rete.EnrollmentLog].Data)
	f.Add([]byte("{}\n\n{\"event\":\"sign\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		log, faults := rete.ReadEnrollments(fstest.MapFS{rete.EnrollmentLog: {Data: text}})
		if len(text) > 0 && len(faults) == 0 && log.Principal("") != "" {
			t.Fatal("an event without fingerprint counts")
		}
	})
}

// FuzzVertexPayload reads any bytes as the payload of a vertex, and of an agent.
func FuzzVertexPayload(f *testing.F) {
	f.Add([]byte(`{"kind":"link","ca_cert_path":"ca.crt","transport_endpoint":{"type":"quic"},"connection_manager":{"adapters":[{"name":"wire","type":"udp"}]},"workloads":[]}`))
	f.Add([]byte(`{"links":[{"members":[{"via":{}}]}]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		rete.CheckVertex(payload)
		rete.CheckAgent(payload)
	})
}
