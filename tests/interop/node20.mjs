// A feature of Node 22 that js-libp2p 3 needs and Node 20 lacks. Must be imported first.

Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new this((res, rej) => { resolve = res; reject = rej })
  return { promise, resolve, reject }
}
