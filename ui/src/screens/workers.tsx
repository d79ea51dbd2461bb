import { Head } from "../parts/bits";

export function Workers() {
  return <Head title="Workers" command="edict status" />;
}
