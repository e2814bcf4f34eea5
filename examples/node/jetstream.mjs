// A program written for NATS JetStream with nothing but nats.js: it publishes, consumes, keeps keys and objects, and
// prints what it saw as JSON objects, one a line. It runs against nats-server and against liftlog alike.
//
//   node jetstream.mjs nats://127.0.0.1:4222 ORDERS [REPLICAS]

import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";
import { connect } from "@nats-io/transport-node";

const [url, name, replicas] = [process.argv[2], process.argv[3], Number(process.argv[4] ?? 1)];
const text = (data) => new TextDecoder().decode(data);
const bytes = (words) => new TextEncoder().encode(words);
const tell = (what, value) => console.log(JSON.stringify({ what, value }));

async function publishAndConsume(connection) {
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name, subjects: [`${name}.>`], num_replicas: replicas });
  const js = jetstream(connection);
  const sequences = [];
  for (let number = 1; number <= 5; number++) {
    sequences.push((await js.publish(`${name}.${number % 2}`, String(number))).seq);
  }
  tell("sequences", sequences);
  for (let time = 0; time < 2; time++) {
    await js.publish(`${name}.0`, "6", { msgID: "once" });
  }
  await manager.consumers.add(name, { durable_name: "worker", ack_policy: AckPolicy.Explicit });
  const consumer = await js.consumers.get(name, "worker");
  const fetched = [];
  for await (const message of await consumer.fetch({ max_messages: 3, expires: 5000 })) {
    fetched.push(message.string());
    await message.ackAck();
  }
  tell("fetched", fetched);
  const iterated = [];
  const messages = await consumer.consume({ max_messages: 10 });
  for await (const message of messages) {
    iterated.push(message.string());
    await message.ackAck();
    if (iterated.length === 3) {
      break;
    }
  }
  await messages.close();
  tell("iterated", iterated);
  const info = await consumer.info();
  tell("left", [info.num_pending, info.num_ack_pending]);
  const last = await manager.streams.getMessage(name, { last_by_subj: `${name}.1` });
  tell("last", [last.seq, text(last.data)]);
  await manager.streams.delete(name);
}

async function keepKeys(connection) {
  const keys = await new Kvm(connection).create(name, { history: 3, replicas });
  const first = await keys.create("colour", bytes("red"));
  await keys.update("colour", bytes("blue"), first);
  let refused = false;
  try {
    await keys.update("colour", bytes("green"), first);
  } catch {
    refused = true;
  }
  tell("refused", refused);
  for (const key of ["size", "gone"]) {
    await keys.put(key, bytes("9"));
  }
  await keys.delete("gone");
  const entry = await keys.get("colour");
  tell("value", [entry.string(), entry.revision]);
  const found = [];
  for await (const key of await keys.keys()) {
    found.push(key);
  }
  tell("keys", found.sort());
  await keys.destroy();
}

async function keepObjects(connection) {
  const objects = await new Objm(connection).create(name, { replicas });
  await objects.putBlob({ name: "picture" }, bytes("x".repeat(200_000)));
  tell("object", (await objects.getBlob("picture")).length);
  await objects.destroy();
}

const connection = await connect({ servers: url, timeout: 5000 });
await publishAndConsume(connection);
await keepKeys(connection);
await keepObjects(connection);
await connection.close();
