// Builds the console into the folder that the binary embeds, or into the one that is named:
// node build.mjs [FOLDER]. The same sources and packages give the same bytes.
import { build } from "esbuild";
import { cpSync, mkdirSync } from "node:fs";

const out = process.argv[2] ?? "../internal/ui/dist";
mkdirSync(out, { recursive: true });
await build({
  entryPoints: { console: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "eof",
  charset: "utf8",
  outdir: out,
});
cpSync("src/index.html", `${out}/index.html`);
cpSync("src/icon.svg", `${out}/icon.svg`);
