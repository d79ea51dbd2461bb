import { useState } from "preact/hooks";

/** The same on the command line, to be copied. */
export function Command({ text }: { text: string }) {
  const [copied, set] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return (
    <div class="command">
      <code tabIndex={0}>{text}</code>
      <button type="button" onClick={copy} title="Copy as CLI" aria-label={`Copy the command ${text}`} data-copy>{copied ? "Copied" : "Copy"}</button>
    </div>
  );
}
