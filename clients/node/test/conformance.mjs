import { readFileSync } from "node:fs";

const read = (name) => JSON.parse(readFileSync(new URL(`../../conformance/${name}`, import.meta.url), "utf8"));

export const responses = () => read("responses.json");
export const session = () => read("session.json");
