// tests/bench/llama.mjs - llama.cpp behind an OpenAI-style endpoint, a peer for tests/bench/peer.sh.
//
//   npm install --prefix FOLDER node-llama-cpp                 # llama.cpp's own libraries, built
//   NODE_PATH=FOLDER/node_modules node tests/bench/llama.mjs MODEL.gguf [PORT] [THREADS]
//
// Greedy, one sequence, requests one after another; a prompt that begins with what the sequence
// holds goes on from there, others are read whole.  It serves what the scenarios ask for, no more.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [model_path, port = "8081", threads = "2"] = process.argv.slice(2);
if (!model_path) {
    console.error("usage: llama.mjs MODEL.gguf [PORT] [THREADS]");
    process.exit(2);
}
const require = createRequire(import.meta.url);
const { getLlama } = await import(pathToFileURL(require.resolve("node-llama-cpp")));
const llama = await getLlama({ gpu: false, build: "never", maxThreads: Number(threads) });
const model = await llama.loadModel({ modelPath: model_path });
const context = await model.createContext({ contextSize: 16384, batchSize: 512, threads: Number(threads) });
const sequence = context.getSequence();

const text_of = (c) => typeof c === "string" ? c : (c ?? []).map((p) => p.text ?? "").join("");

function rendered(messages, think) {
    let out = "";
    for (const m of messages) {
        const why = m.reasoning_content ? `<think>\n${m.reasoning_content}\n</think>\n\n` : "";
        out += `<|im_start|>${m.role}\n${why}${text_of(m.content)}<|im_end|>\n`;
    }
    return out + "<|im_start|>assistant\n<think>\n" + (think ? "" : "\n</think>\n\n");
}

let held = [];                          // what the sequence's state has read: it cannot be rewound

async function complete(request, send) {
    const think = request.chat_template_kwargs?.enable_thinking !== false;
    const tokens = model.tokenize(rendered(request.messages, think), true);
    const most = request.max_tokens ?? request.max_completion_tokens ?? 256;
    const goes_on = held.length > 0 && held.length < tokens.length && held.every((t, i) => t === tokens[i]);
    if (!goes_on || request.cache_prompt === false) await sequence.clearHistory();
    const cached = sequence.nextTokenIndex;
    const out = [];
    let finish = "length";
    for await (const token of sequence.evaluate(tokens.slice(cached), { temperature: 0, yieldEogToken: true })) {
        if (model.isEogToken(token)) {
            finish = "stop";
            break;
        }
        out.push(token);
        send({ content: model.detokenize([token], true) }, null);
        if (out.length >= most) break;
    }
    send({}, finish);
    held = sequence.contextTokens.slice(0, sequence.nextTokenIndex);
    return { prompt_tokens: tokens.length, completion_tokens: out.length, total_tokens: tokens.length + out.length,
             prompt_tokens_details: { cached_tokens: cached } };
}

let turn = Promise.resolve();
createServer((req, res) => {
    const json = (value) => res.setHeader("content-type", "application/json").end(JSON.stringify(value));
    if (req.url === "/health") return json({ status: "ok" });
    if (req.url === "/v1/models") return json({ object: "list", data: [{ id: "llama", object: "model" }] });
    if (req.url !== "/v1/chat/completions") return res.writeHead(404).end();
    const parts = [];
    req.on("data", (d) => parts.push(d)).on("end", () => turn = turn.then(async () => {
        res.setHeader("content-type", "text/event-stream");
        const event = (value) => res.write(`data: ${JSON.stringify({ object: "chat.completion.chunk", ...value })}\n\n`);
        const send = (delta, finish_reason) => event({ choices: [{ index: 0, delta, finish_reason }] });
        try {
            event({ choices: [], usage: await complete(JSON.parse(Buffer.concat(parts)), send) });
            res.write("data: [DONE]\n\n");
        } catch (e) {
            event({ error: { message: String(e) } });
        }
        res.end();
    }));
}).listen(Number(port), "127.0.0.1", () => console.log(`ready http://127.0.0.1:${port}`));
