import { Head } from "../parts/bits";

export function Admission() {
  return <Head title="Admission" command="edict status" />;
}
