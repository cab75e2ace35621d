// Asks once as another user, and says what it has to wait and the error: nobody.mjs SOCKET UID
import { Client } from "windlass-client";

import { failed, giveUp, PATIENT, waitOf } from "./support.mjs";

const [path, user] = process.argv.slice(2);
process.setgroups([]);
process.setgid(Number(user));
process.setuid(Number(user));
const { answer, error } = await new Client(path, { timeout: PATIENT }).retry(failed(), giveUp);
console.log(`${waitOf(answer)} ${error?.message}`);
