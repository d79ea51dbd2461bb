import { useRef, useState } from "preact/hooks";

/** The same on the command line, to be copied. */
export function Command({ text }: { text: string }) {
  const [said, set] = useState("Copy");
  const code = useRef<HTMLElement>(null);
  const copy = async () => {
    const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    set(copied || copySelected(code.current!) ? "Copied" : "Selected");
    setTimeout(() => set("Copy"), 1500);
  };
  return (
    <div class="command">
      <code tabIndex={0} ref={code}>{text}</code>
      <button type="button" onClick={copy} title="Copy as CLI" aria-label={`Copy the command ${text}`} data-copy>{said}</button>
    </div>
  );
}

// copySelected selects a text and copies it so, if the browser lets it: without TLS, beyond localhost, there is no other
// way. What is selected, people can copy themselves.
function copySelected(of: HTMLElement): boolean {
  getSelection()?.selectAllChildren(of);
  return document.execCommand("copy");
}
