// Has AsyncAPI's own parser judge a document; what it finds is a line of JSON each.
import { Parser } from "@asyncapi/parser";
import { readFileSync } from "node:fs";

const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[2], "utf8"));
for (const d of diagnostics) console.log(JSON.stringify({ severity: d.severity, code: d.code, message: d.message, path: d.path.join("/") }));
if (!document) process.exit(1);
console.error(`${document.channels().all().length} channels, ${document.operations().all().length} operations`);
