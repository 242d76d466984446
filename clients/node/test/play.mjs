// Plays the calls of the session on a node: play.mjs URL.
import assert from "node:assert/strict";
import { Client, InvalidRequest, NoReservation, ReservationClosed } from "penstock";
import { session } from "./conformance.mjs";

const errors = { invalid: InvalidRequest, no_reservation: NoReservation, closed: ReservationClosed };
const client = new Client(process.argv[2], { timeoutMs: 60_000, onError: "deny" });
const reservations = { none: "none" };
const compare = (number, verdict, expect) => {
  for (const [name, want] of Object.entries(expect)) assert.deepEqual(verdict[name], want, `call ${number}: ${name}: ${JSON.stringify(verdict)}`);
};

for (const [number, step] of session().calls.entries()) {
  const named = reservations[step.reservation];
  const run = {
    check: () => client.check(step.call),
    reserve: () => client.reserve(step.call),
    settle: () => client.settle(named, step.cost),
    report: () => client.report({ reservation: named, ...step.response }),
    renew: () => client.renew(named, step.ttl_ms),
    release: () => client.release(named),
    batch: () => client.checkBatch(step.calls),
  }[step.do];
  if (step.error) {
    await assert.rejects(run(), errors[step.error], `call ${number}`);
    continue;
  }
  const result = await run();
  if (step.expects) {
    assert.equal(result.length, step.expects.length);
    step.expects.forEach((expect, i) => compare(number, result[i], expect));
    continue;
  }
  if (step.as) reservations[step.as] = result.reservation;
  compare(number, result, step.expect);
}
