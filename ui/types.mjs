// Writes src/api/schema.ts and src/api/routes.ts from the plane's description of its API:
// of the operations that operations.json lists, what they take and what they answer.
import openapiTS, { astToString } from "openapi-typescript";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const wanted = new Set(JSON.parse(readFileSync("operations.json", "utf8")));
const described = "../internal/api/testdata/";
const doc = JSON.parse(readFileSync(`${described}openapi.json`, "utf8"));
doc.paths = {};
for (const part of readdirSync(described).filter((f) => /^openapi-.*\.json$/.test(f)).sort()) {
  for (const [path, item] of Object.entries(JSON.parse(readFileSync(described + part, "utf8")))) doc.paths[path] = { ...doc.paths[path], ...item };
}
const routes = [];
const paths = {};
for (const [path, item] of Object.entries(doc.paths)) {
  for (const [method, op] of Object.entries(item)) {
    if (!wanted.delete(op.operationId)) continue;
    const responses = Object.fromEntries(Object.entries(op.responses).filter(([status, r]) => Number(status) < 300 && !r.$ref)); // a dry run's is shared
    for (const r of Object.values(responses)) delete r.headers;
    (paths[path] ??= {})[method] = { operationId: op.operationId, parameters: op.parameters, requestBody: op.requestBody, responses };
    routes.push([op.operationId, method.toUpperCase(), path]);
  }
}
if (wanted.size > 0) throw new Error(`the API has no ${[...wanted].join(", ")}`);

// terse drops what is for readers of the description, and not for the compiler.
const prose = ["description", "summary", "examples", "default", "pattern"];
const terse = (v, names = false) =>
  Array.isArray(v) ? v.map((x) => terse(x))
    : v === null || typeof v !== "object" ? v
      : Object.fromEntries(Object.entries(v).filter(([k]) => names || !prose.includes(k)).map(([k, x]) => [k, terse(x, !names && (k === "properties" || k === "schemas"))]));

// reach collects the schemas that something refers to.
const schemas = {};
const reach = (v) => {
  if (v === null || typeof v !== "object") return;
  for (const [k, x] of Object.entries(v)) {
    const name = k === "$ref" && typeof x === "string" ? x.replace("#/components/schemas/", "") : "";
    if (name && !x.includes("parameters") && !schemas[name]) {
      schemas[name] = doc.components.schemas[name];
      reach(schemas[name]);
    }
    reach(x);
  }
};
reach(paths);
// used are the parameters that something refers to.
const used = Object.fromEntries(Object.entries(doc.components.parameters).filter(([name]) => JSON.stringify(paths).includes(`"#/components/parameters/${name}"`)));
schemas.Problem = doc.components.schemas.Problem;
reach(schemas.Problem);
const small = terse({ openapi: doc.openapi, info: doc.info, paths, components: { schemas: Object.fromEntries(Object.entries(schemas).sort()), parameters: used } });
const ast = await openapiTS(small, { emptyObjectsUnknown: true });
writeFileSync("src/api/schema.ts", "// Made by types.mjs.\n" + astToString(ast));
const lines = routes.sort().map(([id, method, path]) => `  ${id}: ["${method}", "${path}"],`);
writeFileSync("src/api/routes.ts", `// Made by types.mjs: the method and the path of each operation.\nexport const routes = {\n${lines.join("\n")}\n} as const;\n`);
