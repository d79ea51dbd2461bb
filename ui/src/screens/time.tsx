import { Head } from "../parts/bits";

export function Time() {
  return <Head title="Time" command="edict status" />;
}
