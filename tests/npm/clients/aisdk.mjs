// tests/npm/clients/aisdk.mjs URL - the Vercel AI SDK over its openai-compatible provider: the loop
// an agent runs, two steps with a tool between them, streamed.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { stepCountIs, streamText, generateText, tool, APICallError } from "ai";
import { z } from "zod";
import { check, close } from "./check.mjs";

const entries = [0, 1];
const bodies = [];
const provider = createOpenAICompatible({
  name: "holdfast", baseURL: `${process.argv[2]}/v1`, includeUsage: true,
  fetch: (url, init) => {
    const headers = new Headers(init.headers);
    headers.set("x-session-affinity", "ses_aisdk");
    if (entries.length > 0) headers.set("x-holdfast-force", String(entries.shift()));
    bodies.push(JSON.parse(init.body));
    return fetch(url, { ...init, headers });
  },
});
const model = provider("any");
let asked = null;
const tools = {
  read: tool({
    description: "Reads a file.",
    inputSchema: z.object({ path: z.string(), limit: z.number().int().optional() }),
    execute: async (input) => { asked = input; return "hello \"world\"\nsecond"; },
  }),
};

const result = streamText({
  model, tools, stopWhen: stepCountIs(3), maxRetries: 0,
  system: "You read files.", prompt: "What is in the notes?",
});
const seen = { text: "", reasoning: "", errors: [], calls: 0, finishes: [] };
for await (const part of result.fullStream) {
  if (part.type === "text-delta") seen.text += part.text;
  else if (part.type === "reasoning-delta") seen.reasoning += part.text;
  else if (part.type === "tool-call") seen.calls++;
  else if (part.type === "error") seen.errors.push(part.error);
  else if (part.type === "finish-step") seen.finishes.push(part.finishReason);
}
check(seen.errors.length === 0, `no errors: ${seen.errors}`);
check(seen.calls === 1 && asked?.path === "notes/a b.txt" && asked?.limit === 2, `the tool ran: ${JSON.stringify(asked)}`);
check(seen.reasoning === "The file must be read.Two lines.", `reasoning: ${seen.reasoning}`);
check(seen.text === "I will read it.It says: hello \"world\" — done.", `text: ${seen.text}`);
check(seen.finishes.join() === "tool-calls,stop", `finish reasons: ${seen.finishes}`);
const steps = await result.steps;
check(steps.length === 2, `two steps: ${steps.length}`);
check(steps[0].usage.inputTokens > 0 && steps[0].usage.outputTokens > 0, "usage of a step");
check((steps[1].usage.cachedInputTokens ?? 0) >= steps[0].usage.inputTokens,
      `the second step is cached: ${JSON.stringify(steps[1].usage)}`);
check(bodies.length === 2 && bodies[1].messages.at(-1).role === "tool", "the result went back");

entries.push(2);
const whole = await generateText({ model, prompt: "Hi", maxRetries: 0 });
check(whole.text === "Short answer.", `whole: ${whole.text}`);
try {
  await generateText({ model, prompt: "x ".repeat(20000), maxRetries: 0 });
  check(false, "a prompt over the context is refused");
} catch (e) {
  check(APICallError.isInstance(e) && e.statusCode === 400 && !e.isRetryable, `context error: ${e}`);
  check(/configured context size/.test(e.message), e.message);
}
close();
