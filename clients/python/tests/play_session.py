"""Plays the calls of the session on a node: play_session.py sync|async URL."""

import asyncio
import inspect
import sys

import conformance
import penstock

ERRORS = {"invalid": penstock.InvalidRequest, "no_reservation": penstock.NoReservation, "closed": penstock.ReservationClosed}


def compare(step, verdict, expect):
    for name, want in expect.items():
        got = getattr(verdict, name)
        assert got == want, f"call {step}: {name} is {got!r}, want {want!r}: {verdict}"


async def play(client):
    async def done(result):
        return await result if inspect.isawaitable(result) else result

    reservations = {"none": "none"}
    for number, step in enumerate(conformance.session()["calls"]):
        do, call = step["do"], step.get("call")
        try:
            if do == "batch":
                verdicts = await done(client.check_batch([penstock.Call(**c) for c in step["calls"]]))
                for verdict, expect in zip(verdicts, step["expects"]):
                    compare(number, verdict, expect)
                assert len(verdicts) == len(step["expects"])
                continue
            if do in ("check", "reserve"):
                verdict = await done(getattr(client, do)(**call))
                reservations[step.get("as")] = verdict.reservation
            elif do == "settle":
                verdict = await done(client.settle(reservations[step["reservation"]], step["cost"]))
            elif do == "report":
                verdict = await done(client.report(reservations[step["reservation"]], **step["response"]))
            elif do == "renew":
                verdict = await done(client.renew(reservations[step["reservation"]], step["ttl_ms"]))
            else:
                verdict = await done(client.release(reservations[step["reservation"]]))
        except tuple(ERRORS.values()) as error:
            assert isinstance(error, ERRORS[step["error"]]), f"call {number}: {error!r}"
            continue
        assert "error" not in step, f"call {number}: no error"
        compare(number, verdict, step["expect"])


kind = penstock.Client if sys.argv[1] == "sync" else penstock.AsyncClient
asyncio.run(play(kind(sys.argv[2], timeout=60, on_error="deny")))
