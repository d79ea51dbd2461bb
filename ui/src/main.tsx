import { render } from "preact";
import "./style/tokens.css";
import "./style/frame.css";
import "./style/parts.css";
import "./style/screens.css";
import { Frame } from "./parts/frame";
import { listenToKeys } from "./parts/keys";
import { listen } from "./state/route";
import { begin, listenToLinks } from "./state/who";

listen();
listenToKeys();
listenToLinks();
const root = document.getElementById("console")!;
root.textContent = "";
render(<Frame />, root);
void begin();
