// Plays every scenario with the SDKs against a gateway, and prints what happened as JSON, by scenario. Each has a team
// of its own.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const gateway = process.argv[2];
const messages = [{ role: "user", content: "Tell me a story." }];

// failure returns what an SDK reports.
const failure = (e) => ({ error: e.constructor.name, status: e.status ?? null, message: e.message });

// read counts the parts of a stream.
async function read(stream, isPart) {
	let parts = 0;
	try {
		for await (const event of stream) if (isPart(event)) parts++;
	} catch (e) {
		return { parts, ...failure(e) };
	}
	return { parts };
}

const isChunk = (e) => Boolean(e.choices?.[0]?.delta?.content);
const isDelta = (e) => e.type === "content_block_delta";

const scenarios = (openai, anthropic, headers) => ({
	async "openai"() {
		const { data, response } = await openai.chat.completions.create({ model: "small", max_tokens: 20, messages }).withResponse();
		return { tokens: data.usage.total_tokens, remaining: response.headers.get("ratelimit") };
	},
	async "openai-stream"() {
		let usage = null;
		const stream = await openai.chat.completions.create({ model: "small", max_tokens: 30, messages, stream: true, stream_options: { include_usage: true } });
		const out = await read(stream, (e) => ((usage = e.usage ?? usage), isChunk(e)));
		return { ...out, tokens: usage.total_tokens };
	},
	async "openai-responses"() {
		const stream = await openai.responses.create({ model: "small", max_output_tokens: 40, input: "Hello", stream: true });
		return read(stream, (e) => e.type === "response.output_text.delta");
	},
	async "openai-no-usage"() {
		return read(await openai.chat.completions.create({ model: "small", max_tokens: 300, messages, stream: true }), isChunk);
	},
	async "openai-left"() {
		const stream = await openai.chat.completions.create({ model: "endless", messages, stream: true });
		let parts = 0;
		for await (const event of stream) if (isChunk(event) && ++parts === 12) break; // which closes the connection
		return { parts };
	},
	async "openai-cut"() {
		return read(await openai.chat.completions.create({ model: "endless", messages, stream: true }), isChunk);
	},
	async "openai-parallel"() {
		const one = async () => {
			try {
				return await read(await openai.chat.completions.create({ model: "small", max_tokens: 400, messages, stream: true }), isChunk);
			} catch (e) {
				return { parts: 0, ...failure(e) };
			}
		};
		const all = await Promise.all(Array.from({ length: 50 }, one));
		return { parts: all.reduce((sum, s) => sum + s.parts, 0), cut: all.filter((s) => s.parts > 0 && s.error).length, denied: all.filter((s) => s.status === 429).length };
	},
	async "openai-denied"() {
		try {
			await openai.chat.completions.create({ model: "small", max_tokens: 4000, messages });
			return {};
		} catch (e) {
			return { ...failure(e), retryAfter: e.headers?.get("retry-after") ?? null };
		}
	},
	async "anthropic"() {
		const m = await anthropic.messages.create({ model: "small", max_tokens: 25, messages });
		return { tokens: m.usage.input_tokens + m.usage.output_tokens };
	},
	async "anthropic-stream"() {
		let tokens = 0;
		const stream = await anthropic.messages.create({ model: "small", max_tokens: 35, messages, stream: true });
		const out = await read(stream, (e) => ((tokens = e.usage?.output_tokens ?? tokens), isDelta(e)));
		return { ...out, tokens };
	},
	async "anthropic-cut"() {
		return read(await anthropic.messages.create({ model: "endless", max_tokens: 100, messages, stream: true }), isDelta);
	},
	async "mcp"() {
		const client = new Client({ name: "test", version: "1" });
		await client.connect(new StreamableHTTPClientTransport(new URL(`${gateway}/mcp`), { requestInit: { headers } }));
		const call = async (name) => {
			try {
				return (await client.callTool({ name, arguments: { name: "not the tool" } })).content[0].text;
			} catch (e) {
				return /429|rate/i.test(`${e.code} ${e.message}`) ? "denied" : `${e}`;
			}
		};
		const results = [];
		for (const name of ["search", "search", "search", "search", "search", "echo"]) results.push(await call(name));
		await client.close();
		return { results };
	},
});

const results = {};
for (const name of Object.keys(scenarios())) {
	const headers = { "X-Team": `team-${name}`, "X-User": name };
	const openai = new OpenAI({ apiKey: "none", baseURL: `${gateway}/v1`, maxRetries: 0, defaultHeaders: headers });
	const anthropic = new Anthropic({ apiKey: "none", baseURL: gateway, maxRetries: 0, defaultHeaders: headers });
	try {
		results[name] = await scenarios(openai, anthropic, headers)[name]();
	} catch (e) {
		results[name] = failure(e);
	}
}
console.log(JSON.stringify(results));
