// What js-libp2p 3 expects of Node 22 and Node 20 lacks. Imported before everything else.

Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new this((res, rej) => { resolve = res; reject = rej })
  return { promise, resolve, reject }
}
