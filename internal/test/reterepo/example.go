package reterepo

import "testing/fstest"

// Example is the repository that the specification's three example artifacts
// follow from, enrolled.
func Example() fstest.MapFS {
	repo := fstest.MapFS{}
	for name, text := range exampleFiles {
		repo[name] = &fstest.MapFile{Data: []byte(text)}
	}
	Enroll(repo)
	return repo
}

var exampleFiles = map[string]string{
	"rete.yaml": `rete:
  name: rete-lovers
  ca: { cert: certs/ca.crt, validity_days: 3650 }
  signers:
    mgmt:
      validity_days: 365
      keys:
        - { name: primary, cert: certs/management-planes/primary.crt }
  tls_principals: { validity_days: 90 }
`,
	"nodes.yaml": `nodes:
  mgmt:
    vertices:
      - { name: flor, kind: link, type: quic, address: "9.10.11.12:4433" }
  alpha:
    vertices:
      - { name: flor, kind: link, type: quic, address: "1.2.3.4:4433" }
  beta:
    vertices:
      - { name: flor, kind: link, type: quic, address: "5.6.7.8:4433" }
  alice-laptop:
    vertices:
      - { name: flor, kind: link, type: quic }
`,
	"services/mgmt.yaml": `services:
  config-server:    { at: mgmt, addr: "127.0.0.1:9000", groups: [config-read] }
  config-publisher: { at: mgmt, addr: "127.0.0.1:9001", groups: [config-write] }
`,
	"services/teams.yaml": `services:
  mongodb: { at: beta, addr: "127.0.0.1:27017", groups: [db] }
  kafka:   { at: beta, addr: "127.0.0.1:9092", groups: [brokers] }
  api:
    at: alpha
    addr: "127.0.0.1:8000"
    socks5_proxy: "127.0.0.1:18000"
    groups: [api]
    roles: [api-backend]
  ssh: { at: alpha, scope: node, addr: "0.0.0.0:22", groups: [admin] }
`,
	"access.yaml": `groups: { config-read: , config-write: , api: , db: , brokers: , admin: }
roles:
  node:        { allow: [config-read] }
  operator:    { allow: [config-write] }
  developer:   { allow: [api, brokers] }
  devops:      { allow: [api, db, admin] }
  api-backend: { allow: [db] }
`,
	"users.yaml": `users:
  alice: { roles: [developer], nodes: [ { at: alice-laptop } ] }
  bob:   { roles: [operator, devops], nodes: [ { at: mgmt } ] }
`,
}
