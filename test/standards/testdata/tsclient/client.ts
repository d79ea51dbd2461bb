// Uses the types that openapi-typescript makes of /openapi.json: lists policies, writes one,
// reads it back, and is refused another of its name.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const api = createClient<paths>({ baseUrl: process.argv[2] });
const project = "00000000-0000-4000-8000-000000000000";
const before = await api.GET("/v1/projects/{project}/policies", { params: { path: { project } } });
if (!before.data) throw new Error(before.error.code);
const body: components["schemas"]["Draft"] = {
  slug: "generated-ts", display_name: "Of generated types", selector: { source: "role=web", destination: "role=db" },
  rules: [{ action: "allow", protocol: "tcp", source_cidr: "0.0.0.0/0", destination_cidr: "0.0.0.0/0", ports: { from: 443, to: 443 } }],
};
const made = await api.POST("/v1/projects/{project}/policies", { params: { path: { project } }, body });
if (!made.data) throw new Error(made.error?.code);
const read = await api.GET("/v1/projects/{project}/policies/{policy}", { params: { path: { project, policy: made.data.id } } });
if (!read.data) throw new Error(read.error?.code);
const again = await api.POST("/v1/projects/{project}/policies", { params: { path: { project } }, body });
console.log(`${before.data.items.length} before, ${read.data.slug} written and read, again: ${again.error?.code}`);
