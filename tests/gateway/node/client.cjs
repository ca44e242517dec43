// The official Node client, unchanged: asks a gateway for everything that the test checks and prints it as one JSON line.
// Usage: NODE_PATH=<node_modules> OPENAI_BASE_URL=… OPENAI_API_KEY=… node client.cjs CHAT-MODEL [EMBEDDING-MODEL SPEECH-MODEL]
const { OpenAI, toFile } = require("openai");

const [chatModel, embeddingModel, speechModel] = process.argv.slice(2);
const client = new OpenAI({ maxRetries: 0 });
const messages = [{ role: "user", content: "Say hello" }];
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];

async function text(options) {
  let found = "";
  const stream = await client.chat.completions.create({ model: chatModel, messages, stream: true, ...options });
  for await (const event of stream) found += event.choices[0]?.delta?.content ?? "";
  return found;
}

async function refusal(ask) {
  try {
    await ask();
  } catch (error) {
    return { kind: error.constructor.name, status: error.status, code: error.code, id: error.requestID };
  }
}

async function main() {
  const chat = await client.chat.completions.create({ model: chatModel, messages, max_tokens: 8 });
  const found = {
    chat: chat.choices[0].message.content,
    usage: chat.usage,
    stream: await text({ max_tokens: 8 }),
    models: (await client.models.list()).data.map((model) => model.id),
    unknown: await refusal(() => client.chat.completions.create({ model: "nowhere", messages })),
  };
  if (embeddingModel) {
    const asked = client.chat.completions.stream({ model: chatModel, messages, tools });
    const embedded = await client.embeddings.create({ model: embeddingModel, input: "x", encoding_format: "float" });
    const speech = await toFile(Buffer.concat([Buffer.from("RIFF"), Buffer.alloc(32000)]), "speech.wav");
    found.tools = (await asked.finalChatCompletion()).choices[0].message.tool_calls;
    found.model = (await client.models.retrieve(chatModel)).id;
    found.embedding = embedded.data[0].embedding;
    found.transcription = (await client.audio.transcriptions.create({ model: speechModel, file: speech })).text;
    found.stranger = await refusal(() => client.withOptions({ apiKey: "tnt-wrong" }).models.list());
  }
  console.log(JSON.stringify(found));
}

main();
