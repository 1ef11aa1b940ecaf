// Adds a feature of Node 22 that js-libp2p 3 needs to Node 20. Must be imported first.

Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new this((res, rej) => { resolve = res; reject = rej })
  return { promise, resolve, reject }
}
