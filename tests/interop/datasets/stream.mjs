// Follows a dataset with the npm package `eventsource`, and prints each event as a line of JSON.
import { EventSource } from 'eventsource';

const key = process.env.API_KEY;
const source = new EventSource(process.argv[2], {
  fetch: (input, init) =>
    fetch(input, { ...init, headers: { ...init.headers, 'X-API-Key': key } }),
});
for (const name of ['connected', 'data', 'heartbeat', 'reset']) {
  source.addEventListener(name, ({ data, lastEventId }) => {
    console.log(JSON.stringify({ event: name, data, id: lastEventId }));
  });
}
