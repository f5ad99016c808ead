// tests/npm/clients/openai.mjs URL - the openai client: a streamed chat with a tool call, its
// second turn, errors as its classes, an abort, completions, models.
import OpenAI, { APIError, BadRequestError } from "openai";
import { check, close } from "./check.mjs";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
const force = (n) => ({ headers: { "x-holdfast-force": String(n), "x-session-id": "ses_openai" } });
const tools = [{
  type: "function",
  function: {
    name: "read", description: "Reads a file.",
    parameters: {
      type: "object", required: ["path"],
      properties: { path: { type: "string" }, limit: { type: "integer" } },
    },
  },
}];
const messages = [
  { role: "system", content: "You read files." },
  { role: "user", content: "What is in the notes?" },
];

async function collect(body, n) {
  const out = { text: "", reasoning: "", calls: [], finish: null, usage: null, holdfast: null, roles: 0 };
  const stream = await client.chat.completions.create(
    { model: "any", stream: true, stream_options: { include_usage: true }, ...body }, force(n));
  for await (const chunk of stream) {
    if (chunk.usage) { out.usage = chunk.usage; out.holdfast = chunk.holdfast; }
    const choice = chunk.choices[0];
    if (!choice) continue;
    if (choice.delta.role) out.roles++;
    out.text += choice.delta.content ?? "";
    out.reasoning += choice.delta.reasoning_content ?? "";
    for (const call of choice.delta.tool_calls ?? []) {
      const at = (out.calls[call.index] ??= { id: "", name: "", arguments: "" });
      if (call.id) at.id += call.id;
      at.name += call.function?.name ?? "";
      at.arguments += call.function?.arguments ?? "";
    }
    if (choice.finish_reason) out.finish = choice.finish_reason;
  }
  return out;
}

const first = await collect({ messages, tools }, 0);
check(first.roles === 1, "one role delta");
check(first.reasoning === "The file must be read.", `reasoning: ${first.reasoning}`);
check(first.text === "I will read it.", `text: ${first.text}`);
check(first.calls.length === 1, "one call");
check(first.calls[0]?.id === "call_forced0", `the call's id: ${first.calls[0]?.id}`);
check(first.calls[0]?.name === "read", "the call's name");
const given = JSON.parse(first.calls[0]?.arguments ?? "null");
check(given?.path === "notes/a b.txt" && given?.limit === 2, `arguments: ${first.calls[0]?.arguments}`);
check(first.finish === "tool_calls", `finish: ${first.finish}`);
check(first.usage?.total_tokens === first.usage?.prompt_tokens + first.usage?.completion_tokens, "usage adds up");
check(first.usage?.completion_tokens_details?.reasoning_tokens > 0, "reasoning tokens are counted");

messages.push({
  role: "assistant", content: first.text, reasoning_content: first.reasoning,
  tool_calls: first.calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } })),
}, { role: "tool", tool_call_id: first.calls[0].id, content: "hello \"world\"\nsecond" });
const second = await collect({ messages, tools }, 1);
check(second.text === "It says: hello \"world\" — done.", `second text: ${second.text}`);
check(second.finish === "stop", `second finish: ${second.finish}`);
check(second.holdfast?.source === "end", `second source: ${JSON.stringify(second.holdfast)}`);
const fresh = second.usage.prompt_tokens - second.usage.prompt_tokens_details.cached_tokens;
check(second.usage.prompt_tokens_details.cached_tokens >= first.usage.total_tokens - 1,
      `the second turn forwards ${fresh} of ${second.usage.prompt_tokens}`);

const whole = await client.chat.completions.create({ model: "any", messages, tools }, force(2));
check(whole.object === "chat.completion", "object");
check(whole.choices[0].message.content === "Short answer.", "whole answer");
check(whole.choices[0].finish_reason === "stop", "whole finish");

try {
  await client.chat.completions.create({ model: "any", messages, temperature: "hot" });
  check(false, "a bad temperature is refused");
} catch (e) {
  check(e instanceof BadRequestError, `a bad field is a BadRequestError: ${e}`);
  check(e.param === "temperature" && e.type === "invalid_request_error", "which names the field");
}
try {
  await client.chat.completions.create({ model: "any", messages: [{ role: "user", content: "x ".repeat(20000) }] });
  check(false, "a prompt over the context is refused");
} catch (e) {
  check(e.code === "context_length_exceeded" && e.status === 400, `context error: ${e.status} ${e.code}`);
  check(/prompt has \d+ tokens, but the configured context size is \d+ tokens/.test(e.message), e.message);
}
try {
  const out = await collect({ messages }, 3);
  check(false, `a cut stream throws, got ${JSON.stringify(out)}`);
} catch (e) {
  check(!(e instanceof BadRequestError), `a cut stream is an error of the connection: ${e}`);
}

const aborted = await client.chat.completions.create({ model: "any", stream: true, messages });
for await (const chunk of aborted) { if (chunk.choices[0]) break; }
aborted.controller.abort();

const raw = await client.completions.create({ model: "any", prompt: "Once", max_tokens: 3, temperature: 0 });
check(raw.object === "text_completion" && typeof raw.choices[0].text === "string", "completions");
const models = await client.models.list();
check(models.data.length === 1 && models.data[0].context_length > 0, "models");
try {
  await client.embeddings.create({ model: "any", input: "x" });
  check(false, "embeddings are refused");
} catch (e) {
  check(e instanceof APIError && e.status === 404 && e.code === "not_supported", `embeddings: ${e}`);
}
close();
